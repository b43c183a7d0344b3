// The format: pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3 and 4.5.3.
#include "kinema/io/zip.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"

namespace kinema::io {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kEntryBytes = 46;
constexpr size_t kLocalBytes = 30;
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kIn64 = 0xffff;  // the value is in the ZIP64 record
constexpr uint32_t kIn64Long = 0xffffffff;

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, const std::string& source)
      : bytes_(bytes), source_(source) {}

  std::map<std::string, ZipArchive::File, std::less<>> read() {
    find_directory();
    // The minimum size of an entry bounds their number.
    check(count_ <= directory_bytes_ / kEntryBytes, "[zip] {}: {} files in a directory of {} bytes",
          source_, count_, directory_bytes_);
    uint64_t at = directory_;
    for (uint64_t i = 0; i < count_; ++i) {
      at += entry(at);
    }
    check(at <= directory_ + directory_bytes_,
          "[zip] {}: the directory ends before its {} files do", source_, count_);
    return std::move(files_);
  }

 private:
  template <typename T>
  T number(uint64_t at) const {
    check(at <= bytes_.size() && sizeof(T) <= bytes_.size() - at,
          "[zip] {}: {} bytes at {} lie outside of the file's {} (is it truncated?)", source_,
          sizeof(T), at, bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }

  std::span<const std::byte> part(uint64_t at, uint64_t size) const {
    check(at <= bytes_.size() && size <= bytes_.size() - at,
          "[zip] {}: {} bytes at {} lie outside of the file's {} (is it truncated?)", source_, size,
          at, bytes_.size());
    return bytes_.subspan(at, size);
  }

  /// The end record: before a comment of at most 65535 bytes.
  uint64_t find_end() const {
    constexpr size_t kMostComment = 0xffff;
    const size_t most = std::min(bytes_.size(), kEndBytes + kMostComment);
    for (size_t back = kEndBytes; back <= most; ++back) {
      const size_t at = bytes_.size() - back;
      if (number<uint32_t>(at) == kEnd && number<uint16_t>(at + 20) == back - kEndBytes) {
        return at;
      }
    }
    fail("[zip] {} has no directory at its end (is it truncated?)\n  download or copy it again",
         source_);
  }

  void find_directory() {
    const uint64_t end = find_end();
    const auto disk = number<uint16_t>(end + 4);
    count_ = number<uint16_t>(end + 10);
    directory_bytes_ = number<uint32_t>(end + 12);
    directory_ = number<uint32_t>(end + 16);
    if (count_ == kIn64 || directory_bytes_ == kIn64Long || directory_ == kIn64Long) {
      check(end >= kLocatorBytes && number<uint32_t>(end - kLocatorBytes) == kEnd64Locator,
            "[zip] {}: the record of the 64-bit sizes is missing", source_);
      const auto end64 = number<uint64_t>(end - kLocatorBytes + 8);
      check(number<uint32_t>(end64) == kEnd64, "[zip] {}: there is no 64-bit record at {}", source_,
            end64);
      part(end64, 56);
      count_ = number<uint64_t>(end64 + 32);
      directory_bytes_ = number<uint64_t>(end64 + 40);
      directory_ = number<uint64_t>(end64 + 48);
    } else {
      check(disk == 0, "[zip] {} is a part of a split archive\n  join its parts first", source_);
    }
    part(directory_, directory_bytes_);
  }

  /// Adds the file of a directory entry; returns the entry's size.
  uint64_t entry(uint64_t at) {
    part(at, kEntryBytes);
    check(number<uint32_t>(at) == kDirectoryEntry, "[zip] {}: there is no directory entry at {}",
          source_, at);
    const auto flags = number<uint16_t>(at + 8);
    const auto method = number<uint16_t>(at + 10);
    uint64_t stored = number<uint32_t>(at + 20);
    uint64_t size = number<uint32_t>(at + 24);
    const auto name_bytes = number<uint16_t>(at + 28);
    const auto extra_bytes = number<uint16_t>(at + 30);
    const auto comment_bytes = number<uint16_t>(at + 32);
    uint64_t local = number<uint32_t>(at + 42);
    const auto name_span = part(at + kEntryBytes, name_bytes);
    const std::string name(reinterpret_cast<const char*>(name_span.data()), name_span.size());
    read_extra(at + kEntryBytes + name_bytes, extra_bytes, size, stored, local);
    constexpr uint16_t kEncrypted = 1;
    check((flags & kEncrypted) == 0, "[zip] {}: `{}` is encrypted", source_, printable(name));
    part(local, kLocalBytes);
    check(number<uint32_t>(local) == kLocalHeader, "[zip] {}: `{}` has no header at {}", source_,
          printable(name), local);
    const uint64_t data =
        local + kLocalBytes + number<uint16_t>(local + 26) + number<uint16_t>(local + 28);
    check(method != 0 || stored == size, "[zip] {}: `{}` is stored, but has {} and {} bytes",
          source_, printable(name), stored, size);
    check(files_.emplace(name, ZipArchive::File{part(data, stored), method != 0}).second,
          "[zip] {}: the file `{}` comes twice", source_, printable(name));
    return kEntryBytes + name_bytes + extra_bytes + comment_bytes;
  }

  /// The sizes and the offset that do not fit in 32 bits: in this order, those that are marked.
  void read_extra(uint64_t at, uint64_t bytes, uint64_t& size, uint64_t& stored, uint64_t& local) {
    part(at, bytes);
    const uint64_t end = at + bytes;
    while (end - at >= 4) {
      const auto id = number<uint16_t>(at);
      const auto length = number<uint16_t>(at + 2);
      at += 4;
      check(length <= end - at, "[zip] {}: a directory entry contradicts itself at {}", source_,
            at);
      if (id == kExtra64) {
        uint64_t from = at;
        for (uint64_t* value : {&size, &stored, &local}) {
          if (*value == kIn64Long) {
            check(from + 8 <= at + length, "[zip] {}: a 64-bit size is missing at {}", source_, at);
            *value = number<uint64_t>(from);
            from += 8;
          }
        }
      }
      at += length;
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& source_;
  uint64_t count_ = 0;
  uint64_t directory_ = 0;
  uint64_t directory_bytes_ = 0;
  std::map<std::string, ZipArchive::File, std::less<>> files_;
};

}  // namespace

ZipArchive ZipArchive::parse(std::span<const std::byte> bytes, const std::string& source) {
  ZipArchive out;
  out.source_ = source;
  out.files_ = ZipReader(bytes, source).read();
  return out;
}

std::span<const std::byte> ZipArchive::find(std::string_view name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) {
    return {};
  }
  check(!found->second.is_compressed,
        "[zip] {}: `{}` is compressed, which is not read\n  torch.save writes it uncompressed",
        source_, printable(name));
  return found->second.bytes;
}

bool is_zip(std::span<const std::byte> bytes) {
  uint32_t first = 0;
  if (bytes.size() >= sizeof(first)) {
    std::memcpy(&first, bytes.data(), sizeof(first));
  }
  return first == kLocalHeader;
}

}  // namespace kinema::io
