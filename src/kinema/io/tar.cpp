#include "kinema/io/tar.h"

#include <archive.h>
#include <archive_entry.h>

#include <memory>

#include "kinema/core/error.h"

namespace kinema::io {
namespace {

struct FreeArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};

std::string reason(archive* a) {
  const char* text = archive_error_string(a);
  return text == nullptr ? "unknown format" : text;
}

/// The current member's bytes within `bytes`: libarchive returns pointers into the memory that it
/// reads.
std::span<const std::byte> data_of(archive* a, std::span<const std::byte> bytes,
                                   const std::string& name, const std::string& member) {
  const std::byte* begin = nullptr;
  size_t size = 0;
  for (;;) {
    const void* block = nullptr;
    size_t length = 0;
    la_int64_t offset = 0;
    const int result = archive_read_data_block(a, &block, &length, &offset);
    if (result == ARCHIVE_EOF) {
      return {begin, size};
    }
    check(result == ARCHIVE_OK, "[tar] {}: {}: {}", name, member, reason(a));
    if (length == 0) {
      continue;
    }
    const auto* at = static_cast<const std::byte*>(block);
    const bool ours = at >= bytes.data() && at + length <= bytes.data() + bytes.size();
    begin = begin == nullptr ? at : begin;
    check(ours && offset == static_cast<la_int64_t>(size) && at == begin + size,
          "[tar] {}: {} is not stored in one piece", name, member);
    size += length;
  }
}

}  // namespace

std::vector<TarMember> list_tar(std::span<const std::byte> bytes, const std::string& name) {
  const std::unique_ptr<archive, FreeArchive> a(archive_read_new());
  check(a != nullptr && archive_read_support_format_tar(a.get()) == ARCHIVE_OK,
        "[tar] out of memory");
  check(archive_read_open_memory(a.get(), bytes.data(), bytes.size()) == ARCHIVE_OK,
        "[tar] {} is corrupt, compressed or no tar: {}", name, reason(a.get()));
  std::vector<TarMember> out;
  for (;;) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(a.get(), &entry);
    if (result == ARCHIVE_EOF) {
      return out;
    }
    // Warnings are about times, owners or the locale, which are not used.
    check(result == ARCHIVE_OK || result == ARCHIVE_WARN,
          "[tar] {} is corrupt, compressed or no tar, after {} files: {}", name, out.size(),
          reason(a.get()));
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr) {
      continue;
    }
    const char* path = archive_entry_pathname(entry);
    path = path != nullptr ? path : archive_entry_pathname_utf8(entry);
    if (path != nullptr) {
      std::string member = path;
      const std::span<const std::byte> data = data_of(a.get(), bytes, name, member);
      out.push_back({std::move(member), data});
    }
  }
}

}  // namespace kinema::io
