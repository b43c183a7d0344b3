#include "kinema/records/tfrecord_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/gzip.h"
#include "kinema/records/tfrecord_frame.h"

namespace kinema::records {
namespace {

constexpr uint64_t kFirstBlock = uint64_t{64} << 10;
// A request takes about as long as reading a megabyte: smaller records are read through.
constexpr uint64_t kSmallRecord = uint64_t{1} << 20;
constexpr uint64_t kBlock = uint64_t{8} << 20;

}  // namespace

std::vector<uint64_t> read_record_lengths(const io::RangedFile& file) {
  const auto size = static_cast<uint64_t>(file.size());
  std::vector<uint64_t> lengths;
  std::vector<std::byte> block;
  uint64_t begin = 0;  // of the block
  for (uint64_t at = 0; at < size;) {
    const uint64_t left = size - at;
    const uint64_t head = std::min(left, kBeforePayload);
    if (at + head > begin + block.size()) {
      const uint64_t wanted = lengths.empty()                      ? kFirstBlock
                              : at / lengths.size() < kSmallRecord ? kBlock
                                                                   : head;
      block.resize(std::min(left, wanted));
      file.read(static_cast<int64_t>(at), block);
      begin = at;
      check(
          at > 0 || !io::is_gzip(block),
          "[tfrecord] {} is compressed: single records cannot be read from it\n  have it copied as "
          "a whole, or write it without compression",
          file.path());
    }
    const uint64_t length = payload_length(std::span(block).subspan(at - begin, head), left, at,
                                           static_cast<int64_t>(lengths.size()), file.path());
    lengths.push_back(length);
    at += kBeforePayload + length + kAfterPayload;
  }
  return lengths;
}

RangedTfRecords::RangedTfRecords(std::shared_ptr<const io::RangedFile> file,
                                 const std::vector<uint64_t>& lengths)
    : file_(std::move(file)) {
  const auto size = static_cast<uint64_t>(file_->size());
  uint64_t at = 0;
  bool fits = true;
  offsets_.reserve(lengths.size() + 1);
  for (const uint64_t length : lengths) {
    offsets_.push_back(at);
    fits = fits && length <= size;  // the sum of absurd lengths may overflow
    at += kBeforePayload + length + kAfterPayload;
    fits = fits && at <= size;
  }
  offsets_.push_back(at);
  check(fits && at == size, "[tfrecord] {} has {} bytes, but its records were found in {}",
        file_->path(), size, at);
}

std::string RangedTfRecords::where(int64_t i) const {
  return fmt::format("{} record {}", path(), i);
}

std::vector<std::byte> RangedTfRecords::at(int64_t i) const {
  check(i >= 0 && i < size(), "[tfrecord] {} has {} records, record {} was requested", path(),
        size(), i);
  const uint64_t begin = offsets_[static_cast<size_t>(i)] + kBeforePayload;
  const uint64_t end = offsets_[static_cast<size_t>(i) + 1];
  std::vector<std::byte> out(end - begin);
  file_->read(static_cast<int64_t>(begin), out);
  const auto payload = std::span(out).first(out.size() - kAfterPayload);
  check_payload(payload, std::span(out).last(kAfterPayload), begin, where(i));
  out.resize(payload.size());
  return out;
}

}  // namespace kinema::records
