#include "kinema/preparation/tensor_store.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>
#include <vector>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/hash.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;

std::string to_text(const Settings& settings) {
  io::Json out = io::Json::object();
  for (const auto& [name, value] : settings) {
    out.set(name, value);
  }
  return out.dump(-1);
}

std::string hash_text(const std::string& text) {
  return io::hash_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

std::string member(const io::SafetensorsFile& file, const char* name) {
  const auto found = file.metadata().find(name);
  return found == file.metadata().end() ? std::string() : found->second;
}

constexpr const char* kRemedy = "the same command, run again, makes what it held again";

/// A file with a valid header and these settings.
io::SafetensorsFile open(const fs::path& path, const Settings& settings) {
  std::string damage;
  try {
    io::SafetensorsFile out = io::SafetensorsFile::open(path);
    if (member(out, "settings") == to_text(settings)) {
      return out;
    }
    damage = "it was made with other settings";
  } catch (const Error& error) {
    damage = error.what();
  }
  fail("[prepare] {} is corrupt: {}\n  {}", path.string(), damage.substr(0, damage.find('\n')),
       kRemedy);
}

}  // namespace

TensorStore::TensorStore(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  check(!error, "[prepare] {} cannot be made: {}", folder_.string(), errno_text(error));
}

// The first two letters of the name are a subfolder: a folder with a million files is slow to list.
fs::path TensorStore::file(const Settings& settings) const {
  const std::string name = hash_text(to_text(settings));
  return folder_ / name.substr(0, 2) / (name + ".safetensors");
}

TensorStore::Found TensorStore::find(const Settings& settings) const {
  const fs::path path = file(settings);
  std::error_code ignored;
  Found out{.exists = fs::is_regular_file(path, ignored)};
  if (out.exists) {
    try {
      open(path, settings);
    } catch (const Error& error) {
      const std::string what = error.what();
      out.damage = what.substr(0, what.find('\n'));
    }
  }
  return out;
}

Tensors TensorStore::read(const Settings& settings) const {
  const fs::path path = file(settings);
  const io::SafetensorsFile opened = open(path, settings);
  Tensors out;
  for (const io::TensorView& view : opened.tensors()) {
    out[view.name] = view.copy();
  }
  io::Hasher sum;  // of the bytes in the order of names; the header covers names and shapes
  for (const auto& [name, array] : out) {
    sum.update(array.bytes);
  }
  if (member(opened, "xxh3") != sum.hex()) {
    std::error_code ignored;
    fs::remove(path, ignored);
    fail("[prepare] {} is corrupt: its checksum does not match; it is removed\n  {}", path.string(),
         kRemedy);
  }
  return out;
}

void TensorStore::write(const Settings& settings, const Tensors& tensors) const {
  const fs::path path = file(settings);
  std::error_code error;
  fs::create_directory(path.parent_path(), error);
  check(!error, "[prepare] {} cannot be made: {}", path.parent_path().string(), errno_text(error));
  io::Hasher sum;
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, array] : tensors) {
    sum.update(array.bytes);
    entries.push_back(io::TensorEntry::of(name, array));
  }
  io::write_safetensors(path, entries, {{"settings", to_text(settings)}, {"xxh3", sum.hex()}});
}

}  // namespace kinema::preparation
