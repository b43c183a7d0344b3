#include "kinema/replay/block.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/descriptor.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::replay {
namespace fs = std::filesystem;
namespace {

class MemoryBlock : public Block {
 public:
  explicit MemoryBlock(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {}
  std::span<const std::byte> bytes() override { return bytes_; }
  std::span<std::byte> writable() override { return bytes_; }
  bool is_file() const override { return false; }

 private:
  std::vector<std::byte> bytes_;
};

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "F32";
    case DType::BF16:
      return "BF16";
    case DType::S32:
      return "I32";
    case DType::U8:
      return "U8";
    case DType::PRED:
      return "BOOL";
    default:
      fail("[replay] values of steps are {}, expected f32, bf16, s32 or u8", to_string(dtype));
  }
}

constexpr std::string_view kBegin = "chunk-";
constexpr std::string_view kEnd = ".safetensors";

}  // namespace

Layout::Layout(const std::map<std::string, Shape>& step, int64_t size) : size_(size) {
  std::vector<std::pair<std::string, Shape>> order(step.begin(), step.end());
  std::ranges::stable_sort(order, std::ranges::greater(), [](const auto& value) {
    return Shape{value.second.dtype, {}}.bytes();
  });
  for (const auto& [name, shape] : order) {
    parts_[name] = {.shape = shape, .offset = bytes_, .bytes = shape.bytes()};
    bytes_ += shape.bytes() * size;
  }
}

std::string Layout::header() const {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, part] : parts_) {
    order.emplace_back(part.offset, name);
  }
  std::ranges::sort(order);
  io::Json out = io::Json::object();
  for (const auto& [offset, name] : order) {
    const Part& part = parts_.at(name);
    io::Json dims = io::Json::array({size_});
    for (const int64_t dim : part.shape.dims) {
      dims.append(dim);
    }
    out.set(name, io::Json::object(
                      {{"dtype", safetensors_name(part.shape.dtype)},
                       {"shape", dims},
                       {"data_offsets", io::Json::array({offset, offset + part.bytes * size_})}}));
  }
  std::string text = out.dump(-1);
  constexpr size_t kAlignment = 8;
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string begin(sizeof(uint64_t), '\0');
  for (size_t i = 0; i < begin.size(); ++i) {
    begin[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i));
  }
  return begin + text;
}

std::unique_ptr<Block> memory_block(const Layout& layout) {
  return std::make_unique<MemoryBlock>(layout.bytes());
}

/// A file that is mapped when its bytes are asked for.
class ChunkFiles::File : public Block {
 public:
  File(ChunkFiles& files, uint64_t number, const Layout& layout)
      : files_(&files),
        number_(number),
        begin_(static_cast<int64_t>(layout.header().size())),
        size_(begin_ + layout.bytes()) {
    files.files_.insert(this);
  }
  ~File() override {
    files_->unmap(*this);
    files_->files_.erase(this);
    files_->released_.insert(number_);
  }
  std::span<const std::byte> bytes() override {
    files_->touch(*this);
    return {data_ + begin_, static_cast<size_t>(size_ - begin_)};
  }
  std::span<std::byte> writable() override {
    files_->touch(*this);
    is_dirty_ = true;
    return {data_ + begin_, static_cast<size_t>(size_ - begin_)};
  }
  bool is_file() const override { return true; }

 private:
  friend class ChunkFiles;
  ChunkFiles* files_;
  uint64_t number_;
  int64_t begin_;
  int64_t size_;
  std::byte* data_ = nullptr;  // null: not mapped
  std::list<File*>::iterator place_;
  bool is_dirty_ = false;
};

ChunkFiles::ChunkFiles(fs::path folder, int64_t most_mapped)
    : folder_(std::move(folder)), most_mapped_(most_mapped) {}

fs::path ChunkFiles::path(uint64_t number) const {
  return folder_ / fmt::format("{}{}{}", kBegin, number, kEnd);
}

bool ChunkFiles::has(uint64_t number) const {
  std::error_code ignored;
  return fs::is_regular_file(path(number), ignored);
}

std::unique_ptr<Block> ChunkFiles::create(uint64_t number, const Layout& layout) {
  io::make_folder(folder_);
  const fs::path file = path(number);
  const std::string header = layout.header();
  const io::Descriptor made =
      io::Descriptor::open(file, O_RDWR | O_CREAT | O_TRUNC, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  int error = made ? 0 : errno;
  if (error == 0) {
    error = io::write_all(made, std::as_bytes(std::span(header)));
  }
  if (error == 0) {
    // All of it now: a mapped page for which there is no space later would end the process.
    error = posix_fallocate(made.get(), 0, static_cast<off_t>(header.size()) + layout.bytes());
  }
  if (error != 0) {
    std::error_code ignored;
    fs::remove(file, ignored);
    fail("[replay] {} cannot be written: {}", file.string(), errno_text(error));
  }
  released_.erase(number);
  return std::make_unique<File>(*this, number, layout);
}

Layout ChunkFiles::layout_of(uint64_t number) const {
  const io::SafetensorsFile file = io::SafetensorsFile::open(path(number));
  std::map<std::string, Shape> step;
  int64_t size = 0;
  for (const io::TensorView& view : file.tensors()) {
    check(view.shape.rank() > 0, "[replay] `{}` of {} has no steps", view.name, file.path());
    size = view.shape.dims[0];
    step[view.name] = {view.shape.dtype, {view.shape.dims.begin() + 1, view.shape.dims.end()}};
  }
  check(!step.empty(), "[replay] {} has no values", file.path());
  return {step, size};
}

std::unique_ptr<Block> ChunkFiles::open(uint64_t number, const Layout& layout) {
  check(layout_of(number) == layout, "[replay] {} has other values than the chunks before it",
        path(number).string());
  released_.erase(number);
  return std::make_unique<File>(*this, number, layout);
}

void ChunkFiles::unmap(File& file) {
  if (file.data_ != nullptr) {
    munmap(file.data_, static_cast<size_t>(file.size_));
    file.data_ = nullptr;
    mapped_.erase(file.place_);
    mapped_bytes_ -= file.size_;
  }
}

void ChunkFiles::touch(File& file) {
  if (file.data_ != nullptr) {
    mapped_.splice(mapped_.begin(), mapped_, file.place_);
    return;
  }
  while (!mapped_.empty() && mapped_bytes_ + file.size_ > most_mapped_) {
    unmap(*mapped_.back());
  }
  const fs::path name = path(file.number_);
  const io::Descriptor opened = io::Descriptor::open(name, O_RDWR);
  check(static_cast<bool>(opened), "[replay] {} cannot be opened: {}", name.string(),
        errno_text(errno));
  std::error_code unknown;
  check(static_cast<int64_t>(fs::file_size(name, unknown)) == file.size_,
        "[replay] {} was changed by another program", name.string());
  void* mapped = mmap(nullptr, static_cast<size_t>(file.size_), PROT_READ | PROT_WRITE, MAP_SHARED,
                      opened.get(), 0);
  check(mapped != MAP_FAILED, "[replay] {} cannot be mapped: {}", name.string(), errno_text(errno));
  file.data_ = static_cast<std::byte*>(mapped);
  mapped_.push_front(&file);
  file.place_ = mapped_.begin();
  mapped_bytes_ += file.size_;
}

void ChunkFiles::sync() {
  for (File* file : files_) {
    if (!file->is_dirty_) {
      continue;
    }
    const fs::path name = path(file->number_);
    const io::Descriptor opened = io::Descriptor::open(name, O_RDWR);
    check(opened && fsync(opened.get()) == 0, "[replay] {} cannot be written: {}", name.string(),
          errno_text(errno));
    file->is_dirty_ = false;
  }
}

void ChunkFiles::drop_released() {
  for (const uint64_t number : std::exchange(released_, {})) {
    std::error_code ignored;
    fs::remove(path(number), ignored);
  }
}

void ChunkFiles::keep_only(const std::set<uint64_t>& numbers) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) {
      continue;
    }
    uint64_t number = 0;
    const char* end = name.data() + name.size() - kEnd.size();
    const auto read = std::from_chars(name.data() + kBegin.size(), end, number);
    if (read.ec == std::errc() && read.ptr == end && !numbers.contains(number)) {
      std::error_code ignored;
      fs::remove(entry.path(), ignored);
    }
  }
}

}  // namespace kinema::replay
