#include "kinema/training/learned_rows.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/io/safetensors.h"

namespace kinema::training {
namespace {

namespace fs = std::filesystem;

const char* key_of(const std::string& part, const LearnedRows& rows) {
  return rows.size() == 1 ? "emb_params" : part == "text_encoder" ? "clip_l" : "clip_g";
}

fs::path file_of(const fs::path& folder, const WordRows& word) {
  return folder / (word.name + ".safetensors");
}

/// The part of all rows that are a word's.
std::span<std::byte> bytes_of(HostArray& all, const WordRows& word) {
  const auto row = static_cast<size_t>(all.shape.dims[1] * byte_size(all.shape.dtype));
  return std::span(all.bytes).subspan(static_cast<size_t>(word.first_row) * row,
                                      static_cast<size_t>(word.rows) * row);
}

}  // namespace

void save_words(const fs::path& folder, std::span<const WordRows> words, const LearnedRows& rows) {
  io::make_folder(folder);
  for (const WordRows& word : words) {
    std::vector<HostArray> own;
    for (const auto& [part, all] : rows) {
      HostArray values = convert(all, DType::F32);
      const std::span<std::byte> bytes = bytes_of(values, word);
      HostArray& one = own.emplace_back(Shape{DType::F32, {word.rows, all.shape.dims[1]}});
      std::ranges::copy(bytes, one.bytes.begin());
    }
    std::vector<io::TensorEntry> entries;
    size_t i = 0;
    for (const auto& [part, all] : rows) {
      entries.push_back(io::TensorEntry::of(key_of(part, rows), own[i++]));
    }
    io::write_safetensors(file_of(folder, word), entries);
  }
}

void load_words(const fs::path& folder, std::span<const WordRows> words, LearnedRows& rows) {
  for (const WordRows& word : words) {
    const auto file = io::SafetensorsFile::open(file_of(folder, word));
    for (auto& [part, all] : rows) {
      const HostArray own = file.at(key_of(part, rows)).copy();
      const std::span<std::byte> to = bytes_of(all, word);
      check(own.shape == Shape{DType::F32, {word.rows, all.shape.dims[1]}},
            "[checkpoint] {} has rows {}, expected f32[{},{}]", file_of(folder, word).string(),
            to_string(own.shape), word.rows, all.shape.dims[1]);
      std::ranges::copy(own.bytes, to.begin());
    }
  }
}

}  // namespace kinema::training
