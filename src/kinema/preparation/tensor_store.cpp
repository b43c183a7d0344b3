#include "kinema/preparation/tensor_store.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>
#include <vector>

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

}  // namespace

TensorStore::TensorStore(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  check(!error, "[prepare] {} cannot be made: {}", folder_.string(), error.message());
}

// Two letters of the name are a folder: a folder of a million files is slow to list.
fs::path TensorStore::file(const Settings& settings) const {
  const std::string name = hash_text(to_text(settings));
  return folder_ / name.substr(0, 2) / (name + ".safetensors");
}

bool TensorStore::has(const Settings& settings) const {
  std::error_code ignored;
  return fs::is_regular_file(file(settings), ignored);
}

Tensors TensorStore::read(const Settings& settings) const {
  const fs::path path = file(settings);
  const auto opened = io::SafetensorsFile::open(path);
  const auto member = [&](const char* name) {
    const auto found = opened.metadata().find(name);
    return found == opened.metadata().end() ? std::string() : found->second;
  };
  check(member("settings") == to_text(settings),
        "[prepare] {} was made with other settings\n  delete it: it is made again", path.string());
  Tensors out;
  for (const io::TensorView& view : opened.tensors()) {
    out[view.name] = view.copy();
  }
  io::Hasher sum;  // of the bytes in order of name; names and shapes are the header's
  for (const auto& [name, array] : out) {
    sum.update(array.bytes);
  }
  check(member("xxh3") == sum.hex(), "[prepare] {} is damaged\n  delete it: it is made again",
        path.string());
  return out;
}

void TensorStore::write(const Settings& settings, const Tensors& tensors) const {
  const fs::path path = file(settings);
  std::error_code error;
  fs::create_directory(path.parent_path(), error);
  check(!error, "[prepare] {} cannot be made: {}", path.parent_path().string(), error.message());
  io::Hasher sum;
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, array] : tensors) {
    sum.update(array.bytes);
    entries.push_back(io::TensorEntry::of(name, array));
  }
  io::write_safetensors(path, entries, {{"settings", to_text(settings)}, {"xxh3", sum.hex()}});
}

}  // namespace kinema::preparation
