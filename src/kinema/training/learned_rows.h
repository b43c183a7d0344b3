#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"

/// Words of textual inversion (arXiv:2208.01618) while they are trained: rows of a text encoder's
/// embedding table, networks::kLearnedRows.
namespace kinema::training {

/// The folder of their files in a checkpoint.
inline constexpr const char* kWords = "textual_inversion";

/// A word, and its rows among all that are trained; the same rows in each text encoder.
struct WordRows {
  std::string name;
  int64_t first_row = 0;
  int64_t rows = 1;
};

/// Rows f32 [n, hidden_size] by the text encoder's part of the pipeline.
using LearnedRows = std::map<std::string, HostArray>;

/// Writes a file for each word, `NAME.safetensors`, as kohya's scripts, ComfyUI and AUTOMATIC1111's
/// webui read it: `emb_params` [rows, hidden_size], or for two text encoders `clip_l` and `clip_g`.
void save_words(const std::filesystem::path& folder, std::span<const WordRows> words,
                const LearnedRows& rows);

/// Reads them into `rows`, which have the shapes of the result. Throws an Error with the file if
/// one is missing or has other rows.
void load_words(const std::filesystem::path& folder, std::span<const WordRows> words,
                LearnedRows& rows);

}  // namespace kinema::training
