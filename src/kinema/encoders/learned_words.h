#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/encoders/text_files.h"
#include "kinema/text/clip_tokenizer.h"

namespace kinema::encoders {

/// A word of textual inversion: rows that replace those of the embedding table.
struct LearnedWord {
  std::string name;
  std::string written;       // its name in prompts: NAME or embedding:NAME
  std::vector<int64_t> ids;  // the tokens of `written`
  HostArray rows;            // f32 [n, hidden_size]
};

/// The tokens of a text, without start and end.
std::vector<int64_t> word_ids(const text::ClipTokenizer& tokenizer, const std::string& text);

/// The learned words of a folder that occur in prompts: files .safetensors, .pt, .bin and the other
/// names of torch's files. A word's name is its file's name without the ending, and in a file of
/// diffusers (`learned_embeds.safetensors`) the name of its tensor; prompts may also write
/// `embedding:NAME`.
class LearnedWords {
 public:
  /// No words.
  LearnedWords() = default;
  /// Lists the folders, of which the first with a word counts. `member` is the tensor of files for
  /// two encoders, `clip_l` or `clip_g`. Throws an Error if a folder cannot be read.
  LearnedWords(std::span<const std::filesystem::path> folders, std::string member,
               int64_t hidden_size);

  /// Reads the words that occur in `text`, longer names first. Throws an Error that names the file
  /// if it has no tensor for this encoder: of another width, or of unknown names.
  std::vector<LearnedWord> in(std::string_view text, const text::ClipTokenizer& tokenizer) const;

  bool empty() const { return files_.empty(); }

 private:
  void list(const std::filesystem::path& folder);
  void add(const std::filesystem::path& file, std::string_view text,
           const text::ClipTokenizer& tokenizer, std::vector<LearnedWord>& out) const;

  std::vector<std::filesystem::path> files_;
  std::string member_;
  int64_t hidden_size_ = 0;
};

/// Rows of CLIP's embedding table for the tokens of a text, repeated or cut to `rows`: f32 [rows,
/// hidden_size]. Throws an Error for a text without tokens.
HostArray rows_of_text(const TextFiles& files, const std::string& text, int64_t rows);

/// The rows of a textual inversion file by the names of its words; an empty name is the file's.
/// `member` as above. Throws an Error with the file if it has no such tensor.
std::vector<std::pair<std::string, HostArray>> read_learned_rows(const std::filesystem::path& file,
                                                                 std::string_view member);

}  // namespace kinema::encoders
