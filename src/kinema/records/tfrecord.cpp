#include "kinema/records/tfrecord.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/io/gzip.h"
#include "kinema/records/crc32c.h"
#include "kinema/records/tfrecord_frame.h"

namespace kinema::records {
namespace {

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<uint64_t>(bytes[i]);
  }
  return value;
}

void append_little_endian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xff);
  }
}

}  // namespace

uint64_t payload_length(std::span<const std::byte> header, uint64_t left, uint64_t at,
                        int64_t record, std::string_view source) {
  check(left >= kBeforePayload + kAfterPayload,
        "[tfrecord] {} is truncated: {} bytes are left for record {} at byte {}", source, left,
        record, at);
  const auto length_bytes = header.first(8);
  check(masked_crc32c(length_bytes) == little_endian(header.subspan(8, 4)),
        "[tfrecord] {}: the length of record {} at byte {} is corrupt (its CRC does not match)",
        source, record, at);
  const uint64_t length = little_endian(length_bytes);
  check(length <= left - kBeforePayload - kAfterPayload,
        "[tfrecord] {} is truncated: record {} at byte {} claims {} bytes, {} are left", source,
        record, at, length, left - kBeforePayload - kAfterPayload);
  return length;
}

void check_payload(std::span<const std::byte> payload, std::span<const std::byte> crc,
                   uint64_t offset, const std::string& where) {
  check(masked_crc32c(payload) == little_endian(crc),
        "[tfrecord] {} at byte {} is corrupt (its CRC does not match)", where, offset);
}

TfRecordFile TfRecordFile::open(const std::filesystem::path& path) {
  io::MappedFile file = io::MappedFile::open(path);
  if (io::is_gzip(file.bytes())) {
    std::vector<std::byte> whole = io::gunzip(file.bytes(), path.string());
    TfRecordFile out = parse(whole, path.string());
    // The buffer is moved, so the records stay at their addresses.
    out.decompressed_ = std::move(whole);
    return out;
  }
  TfRecordFile out = parse(file.bytes(), path.string());
  out.file_ = std::move(file);
  return out;
}

TfRecordFile TfRecordFile::parse(std::span<const std::byte> bytes, const std::string& source) {
  TfRecordFile out;
  out.path_ = source;
  out.bytes_ = bytes;
  uint64_t at = 0;
  while (at < bytes.size()) {
    const uint64_t left = bytes.size() - at;
    const uint64_t length = payload_length(bytes.subspan(at, std::min(left, kBeforePayload)), left,
                                           at, static_cast<int64_t>(out.records_.size()), source);
    out.records_.push_back({at + kBeforePayload, length});
    at += kBeforePayload + length + kAfterPayload;
  }
  return out;
}

std::span<const std::byte> TfRecordFile::unchecked(int64_t i) const {
  check(i >= 0 && i < size(), "[tfrecord] {} has {} records, record {} was requested", path_,
        size(), i);
  const Extent& extent = records_[static_cast<size_t>(i)];
  return bytes_.subspan(extent.offset, extent.length);
}

std::span<const std::byte> TfRecordFile::at(int64_t i) const {
  const auto payload = unchecked(i);
  const Extent& extent = records_[static_cast<size_t>(i)];
  check_payload(payload, bytes_.subspan(extent.offset + extent.length, kAfterPayload),
                extent.offset, where(i));
  return payload;
}

std::vector<std::string> shards_of(std::vector<std::string> names) {
  std::erase_if(names,
                [](const std::string& name) { return name.empty() || name.starts_with('.'); });
  const auto is_named = [](const std::string& name) {
    return std::filesystem::path(name).extension().string().starts_with(".tfrec");
  };
  // Documentation files in data sets of the hub.
  const auto is_note = [](const std::string& name) {
    const std::string extension = std::filesystem::path(name).extension().string();
    return extension == ".md" || extension == ".txt" || extension == ".json" ||
           extension == ".jsonl" || extension == ".csv" || extension == ".yml" ||
           extension == ".yaml";
  };
  const bool named = std::ranges::any_of(names, is_named);
  std::erase_if(names,
                [&](const std::string& name) { return named ? !is_named(name) : is_note(name); });
  std::ranges::sort(names);
  return names;
}

std::string TfRecordFile::where(int64_t i) const { return fmt::format("{} record {}", path_, i); }

std::string frame_record(std::string_view payload) {
  std::string out;
  out.reserve(payload.size() + kBeforePayload + kAfterPayload);
  append_little_endian(out, payload.size(), 8);
  append_little_endian(out, masked_crc32c(std::as_bytes(std::span(out))), 4);
  out += payload;
  append_little_endian(out, masked_crc32c(std::as_bytes(std::span(payload.data(), payload.size()))),
                       4);
  return out;
}

void TfRecordWriter::append(std::string_view payload) { file_.write(frame_record(payload)); }

}  // namespace kinema::records
