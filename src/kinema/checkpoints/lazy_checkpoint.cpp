#include "kinema/checkpoints/lazy_checkpoint.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"

namespace kinema::checkpoints {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kHoles = "holes";
constexpr int kTransfers = 4;

/// Networks and moments, of which each device reads its part.
bool may_have_holes(const fs::path& name) {
  return name.extension() == ".safetensors" && !name.string().starts_with("adapter") &&
         !name.string().starts_with("textual_inversion");
}

/// The bytes before the data of a safetensors file; the size of a file of another kind.
int64_t header_bytes(const io::RangedFile& file) {
  std::array<std::byte, 8> length{};
  if (file.size() < std::ssize(length)) {
    return file.size();
  }
  file.read(0, length);
  uint64_t header = 0;
  std::memcpy(&header, length.data(), sizeof(header));
  const auto left = static_cast<uint64_t>(file.size()) - sizeof(header);
  return header <= left ? static_cast<int64_t>(header + sizeof(header)) : file.size();
}

std::string name_at(int64_t step, const std::string& name) {
  return fmt::format("{}/{}", step, name);
}

}  // namespace

bool has_holes(const io::Json& entry) { return entry.find(kHoles) != nullptr; }

void LazyCheckpoint::make(const remote::Store& store, int64_t step, const fs::path& folder) {
  const std::string text = store.read(name_at(step, kManifest));
  std::vector<std::string> names;
  try {
    names = manifest_files(text, kManifest);
  } catch (const Error&) {
    io::write_file(folder / kManifest, text);
    return;  // the reader of the folder reports the reason
  }
  std::vector<int64_t> present(names.size(), -1);  // of files with holes
  for_each_in_parallel(names.size(), kTransfers, [&](size_t i) {
    const std::string there = name_at(step, names[i]);
    const auto file = store.find(there);
    if (!file) {
      return;
    }
    io::make_folder((folder / names[i]).parent_path());
    if (may_have_holes(names[i])) {
      const remote::StoredObject object = store.open(there);
      const int64_t header = header_bytes(object);
      if (header < object.size()) {
        io::PartialCopy::make(folder / names[i], object, header);
        present[i] = header;
        return;
      }
    }
    store.download(*file, folder / names[i]);
  });
  io::Json manifest = io::Json::parse(text, kManifest);
  io::Json files = io::Json::array();
  size_t i = 0;
  for (const io::Json& entry : manifest.at("files").items()) {
    io::Json one = entry;
    if (present[i] >= 0) {
      one.set(kHoles, present[i]);
    }
    files.append(std::move(one));
    ++i;
  }
  manifest.set("files", std::move(files));
  io::write_file(folder / kManifest, manifest.dump() + "\n");
}

LazyCheckpoint::LazyCheckpoint(const remote::Store& store, int64_t step, const fs::path& folder)
    : step_(step) {
  const io::Json manifest = io::Json::read(folder / kManifest);
  for (const io::Json& entry : manifest.at("files").items()) {
    if (!has_holes(entry)) {
      continue;
    }
    const std::string& name = entry.at("path").as_string();
    auto object = std::make_shared<const remote::StoredObject>(store.open(name_at(step, name)));
    bytes_ += object->size();
    files_.push_back(std::make_unique<io::PartialCopy>(folder / name, std::move(object),
                                                       entry.at(kHoles).as_int()));
  }
}

int64_t LazyCheckpoint::bytes_downloaded() const {
  int64_t out = 0;
  for (const auto& file : files_) {
    out += file->bytes_downloaded();
  }
  return out;
}

}  // namespace kinema::checkpoints
