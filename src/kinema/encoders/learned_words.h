#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/text/clip_tokenizer.h"

namespace kinema::encoders {

/// A word of textual inversion: rows that replace those of the embedding table.
struct LearnedWord {
  std::string name;          // in prompts
  std::vector<int64_t> ids;  // the tokens of its name
  HostArray rows;            // f32 [n, hidden_size]
};

/// The learned words of a folder that occur in prompts: files .safetensors, .pt, .bin and the other
/// names of torch's files. A word's name is its file's name without the ending, and in a file of
/// diffusers (`learned_embeds.safetensors`) the name of its tensor; prompts may also write
/// `embedding:NAME`.
class LearnedWords {
 public:
  /// No words.
  LearnedWords() = default;
  /// Lists the folder. `member` is the tensor of files for two encoders, `clip_l` or `clip_g`.
  /// Throws an Error if the folder cannot be read.
  LearnedWords(const std::filesystem::path& folder, std::string member, int64_t hidden_size);

  /// Reads the words that occur in `text`, longer names first. Throws an Error that names the file
  /// if it has no tensor for this encoder: of another width, or of unknown names.
  std::vector<LearnedWord> in(std::string_view text, const text::ClipTokenizer& tokenizer) const;

  bool empty() const { return files_.empty(); }

 private:
  void add(const std::filesystem::path& file, std::string_view text,
           const text::ClipTokenizer& tokenizer, std::vector<LearnedWord>& out) const;

  std::vector<std::filesystem::path> files_;
  std::string member_;
  int64_t hidden_size_ = 0;
};

/// The rows of a textual inversion file by the names of its words; an empty name is the file's.
/// `member` as above. Throws an Error with the file if it has no such tensor.
std::vector<std::pair<std::string, HostArray>> read_learned_rows(const std::filesystem::path& file,
                                                                 std::string_view member);

}  // namespace kinema::encoders
