#include "kinema/io/partial_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/descriptor.h"
#include "kinema/io/mapped_file.h"

namespace kinema::io {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kChunk = int64_t{16} << 20;

void write_at(const Descriptor& file, std::span<const std::byte> bytes, int64_t begin,
              const std::string& path) {
  const int error = write_all(file, bytes, begin);
  check(error == 0, "[io] cannot write {}: {}", path, errno_text(error));
}

struct stat status_of(const fs::path& path) {
  struct stat status {};
  check(::stat(path.c_str(), &status) == 0, "[io] cannot read {}: {}", path.string(),
        errno_text(errno));
  return status;
}

}  // namespace

struct PartialCopy::Holes {
  std::string path;
  std::shared_ptr<const RangedFile> source;
  Descriptor file;
  std::mutex mutex;
  std::map<int64_t, int64_t> present;  // begin -> end; disjoint
  std::atomic<int64_t> brought = 0;

  void add(int64_t begin, int64_t end) {
    const std::scoped_lock lock(mutex);
    auto next = present.lower_bound(begin);
    if (next != present.begin() && std::prev(next)->second >= begin) {
      --next;
    }
    while (next != present.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = present.erase(next);
    }
    present.emplace(begin, end);
  }

  std::vector<std::pair<int64_t, int64_t>> missing(int64_t begin, int64_t end) {
    const std::scoped_lock lock(mutex);
    std::vector<std::pair<int64_t, int64_t>> out;
    auto next = present.upper_bound(begin);
    if (next != present.begin()) {
      begin = std::max(begin, std::prev(next)->second);
    }
    for (; begin < end; ++next) {
      const int64_t until = next == present.end() ? end : std::min(end, next->first);
      if (begin < until) {
        out.emplace_back(begin, until);
      }
      if (next == present.end()) {
        break;
      }
      begin = std::max(until, next->second);
    }
    return out;
  }

  /// Two threads that need the same bytes at the same time both download them.
  void fill(int64_t from, int64_t to) {
    for (auto [begin, end] : missing(from, to)) {
      std::vector<std::byte> bytes;
      for (int64_t at = begin; at < end;) {
        bytes.resize(static_cast<size_t>(std::min(kChunk, end - at)));
        source->read(at, bytes);
        write_at(file, bytes, at, path);
        at += std::ssize(bytes);
        brought += std::ssize(bytes);
      }
      add(begin, end);
    }
  }
};

namespace {

struct Mapping {
  size_t size = 0;
  std::shared_ptr<PartialCopy::Holes> holes;
};

/// For the whole process: files by inode, bytes by address.
struct Known {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::shared_ptr<PartialCopy::Holes>> files;
  std::map<const std::byte*, Mapping> mappings;
  std::atomic<bool> any = false;
};
Known& known() {
  static Known all;
  return all;
}

}  // namespace

void PartialCopy::make(const fs::path& path, const RangedFile& source, int64_t present) {
  const Descriptor file = Descriptor::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  check(static_cast<bool>(file), "[io] cannot write {}: {}", path.string(), errno_text(errno));
  std::vector<std::byte> bytes(static_cast<size_t>(present));
  source.read(0, bytes);
  write_at(file, bytes, 0, path.string());
  check(::ftruncate(file.get(), source.size()) == 0, "[io] cannot write {}: {}", path.string(),
        errno_text(errno));
}

PartialCopy::PartialCopy(const fs::path& path, std::shared_ptr<const RangedFile> source,
                         int64_t present)
    : holes_(std::make_shared<Holes>()) {
  holes_->path = path.string();
  holes_->source = std::move(source);
  holes_->file = Descriptor::open(path, O_WRONLY);
  check(static_cast<bool>(holes_->file), "[io] cannot write {}: {}", holes_->path,
        errno_text(errno));
  const struct stat status = status_of(path);
  check(status.st_size == holes_->source->size(), "[io] {} has {} bytes, {} has {}", holes_->path,
        status.st_size, holes_->source->path(), holes_->source->size());
  holes_->add(0, present);
  const std::scoped_lock lock(known().mutex);
  known().files[{status.st_dev, status.st_ino}] = holes_;
  known().any = true;
}

PartialCopy::~PartialCopy() {
  const std::scoped_lock lock(known().mutex);
  std::erase_if(known().files, [&](const auto& each) { return each.second == holes_; });
  known().any = !known().files.empty() || !known().mappings.empty();
}

int64_t PartialCopy::bytes_downloaded() const { return holes_->brought; }

bool is_partial_copy(dev_t device, ino_t inode) {
  if (!known().any) {
    return false;
  }
  const std::scoped_lock lock(known().mutex);
  return known().files.contains({device, inode});
}

bool note_mapping(const std::byte* data, size_t size, dev_t device, ino_t inode) {
  if (!known().any) {
    return false;
  }
  const std::scoped_lock lock(known().mutex);
  const auto found = known().files.find({device, inode});
  if (found == known().files.end()) {
    return false;
  }
  known().mappings[data] = {.size = size, .holes = found->second};
  return true;
}

void forget_mapping(const std::byte* data) {
  const std::scoped_lock lock(known().mutex);
  known().mappings.erase(data);
  known().any = !known().files.empty() || !known().mappings.empty();
}

void bring(std::span<const std::byte> bytes) {
  if (!known().any || bytes.empty()) {
    return;
  }
  std::shared_ptr<PartialCopy::Holes> holes;
  int64_t begin = 0;
  {
    const std::scoped_lock lock(known().mutex);
    auto next = known().mappings.upper_bound(bytes.data());
    if (next == known().mappings.begin()) {
      return;
    }
    --next;
    begin = bytes.data() - next->first;
    if (begin >= static_cast<int64_t>(next->second.size)) {
      return;
    }
    holes = next->second.holes;
  }
  holes->fill(begin, begin + std::ssize(bytes));
}

}  // namespace kinema::io
