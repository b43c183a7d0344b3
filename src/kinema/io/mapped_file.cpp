#include "kinema/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kinema/core/address_space.h"
#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/descriptor.h"
#include "kinema/io/mapping_guard.h"
#include "kinema/io/partial_copy.h"

namespace kinema::io {

namespace {

/// A Git LFS pointer, which a clone without Git LFS has instead of a large file
/// (github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
bool is_lfs_pointer(std::span<const std::byte> bytes) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  constexpr size_t kMost = 1024;
  return bytes.size() > kBegin.size() && bytes.size() < kMost &&
         std::memcmp(bytes.data(), kBegin.data(), kBegin.size()) == 0;
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  MappedFile file;
  file.path_ = path.string();
  // O_NONBLOCK: opening a fifo must not wait for a writer. The mapping stays valid after closing.
  const Descriptor descriptor = Descriptor::open(path, O_RDONLY | O_NONBLOCK);
  check(static_cast<bool>(descriptor), "[io] cannot read {}: {}", file.path_, errno_text(errno));
  struct stat status {};
  check(::fstat(descriptor.get(), &status) == 0, "[io] cannot read {}: {}", file.path_,
        errno_text(errno));
  check(!S_ISDIR(status.st_mode), "[io] cannot read {}: it is a folder, a file was expected",
        file.path_);
  check(S_ISREG(status.st_mode), "[io] cannot read {}: it is not a regular file", file.path_);
  file.size_ = static_cast<size_t>(status.st_size);
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;
  if (file.size_ == 0) {
    return file;  // mmap does not allow a length of zero
  }
  if (file.read_small(descriptor)) {
    return file;
  }
  void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (data == MAP_FAILED) {
    const int reason = errno;
    const size_t size = std::exchange(file.size_, 0);
    fail("[io] cannot map {} ({} bytes): {}{}", file.path_, size, std::strerror(reason),
         reason == ENOMEM ? memory_remedy() : "");
  }
  file.data_ = static_cast<const std::byte*>(data);
  file.guard_ = mapping_guard::add(file.data_, file.size_);
  file.has_holes_ = note_mapping(file.data_, file.size_, status.st_dev, status.st_ino);
  return file;
}

/// Reads the file instead of mapping it, if it is smaller than a page. Such bytes have no complete
/// page, which release_pages could clear.
bool MappedFile::read_small(const Descriptor& descriptor) {
  constexpr size_t kLeastPage = 4096;
  if (size_ >= kLeastPage || is_partial_copy(device_, inode_)) {
    return false;
  }
  // Zeros follow, as in the last page of a mapping: FFmpeg's readers look at them.
  constexpr size_t kPadding = 64;
  own_ = std::make_unique<std::byte[]>(size_ + kPadding);
  const ssize_t read = read_all(descriptor, {own_.get(), size_});
  check(read >= 0, "[io] cannot read {}: {}", path_, errno_text(errno));
  check(static_cast<size_t>(read) == size_,
        "[io] {} had {} bytes and became {} bytes long while it was in use", path_, size_, read);
  data_ = own_.get();
  check(!is_lfs_pointer(bytes()),
        "[io] {} is a Git LFS pointer, not the file itself\n  `git lfs pull` in its folder "
        "downloads it",
        path_);
  return true;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      own_(std::move(other.own_)),
      size_(std::exchange(other.size_, 0)),
      guard_(std::exchange(other.guard_, -1)),
      has_holes_(std::exchange(other.has_holes_, false)),
      device_(other.device_),
      inode_(other.inode_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(own_, other.own_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  std::swap(has_holes_, other.has_holes_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr && own_ == nullptr) {
    mapping_guard::remove(guard_);
    if (has_holes_) {
      forget_mapping(data_);
    }
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

void MappedFile::check_intact() const {
  if (own_ != nullptr) {
    return;
  }
  io::check_intact(bytes(), path_);
  struct stat status {};
  // A replaced file does not change the mapping.
  const bool same = !path_.empty() && ::stat(path_.c_str(), &status) == 0 &&
                    status.st_dev == device_ && status.st_ino == inode_;
  check(!same || static_cast<size_t>(status.st_size) >= size_,
        "[io] {} had {} bytes and became {} bytes long while it was in use", path_, size_,
        status.st_size);
}

void check_intact(std::span<const std::byte> bytes, std::string_view what) {
  check(bytes.empty() || !mapping_guard::is_damaged(bytes.data()),
        "[io] {} became shorter, or could not be read, while it was in use", what);
}

namespace {

/// The complete pages in a span.
std::pair<uintptr_t, size_t> pages_inside(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  return {begin, end > begin ? end - begin : 0};
}

void advise(std::span<const std::byte> bytes, int advice) {
  if (const auto [begin, size] = pages_inside(bytes); size > 0) {
    // Only a hint: without support, reading works as before.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): inside our own mapping
    ::madvise(reinterpret_cast<void*>(begin), size, advice);
  }
}

}  // namespace

void release_pages(std::span<const std::byte> bytes) { advise(bytes, MADV_DONTNEED); }

void will_read(std::span<const std::byte> bytes) { advise(bytes, MADV_WILLNEED); }

std::string read_text(const std::filesystem::path& path, size_t limit) {
  const MappedFile file = MappedFile::open(path);
  check(file.bytes().size() <= limit, "[io] {} has {} bytes, at most {} were expected", file.path(),
        file.bytes().size(), limit);
  std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  file.check_intact();
  return text;
}

}  // namespace kinema::io
