#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/text/added_tokens.h"
#include "kinema/text/bpe.h"

namespace kinema::text {

/// The byte pairs of a tokenizer's folder.
struct BpeFolder {
  std::vector<std::string> vocabulary;  // by id
  std::vector<Merge> merges;
  std::vector<AddedToken> added = {};  // those of tokenizer.json
};

/// Files of a tokenizer's folder.
inline constexpr const char* kVocabularyFile = "vocab.json";
inline constexpr const char* kMergesFile = "merges.txt";
inline constexpr const char* kTokenizerFile = "tokenizer.json";

/// Reads `vocab.json` and `merges.txt`, or `tokenizer.json`, which contains both: the one that is
/// there, and of both the one that is preferred. `model` is named in messages. Throws an Error with
/// the file and the problem.
BpeFolder read_bpe_folder(const std::filesystem::path& folder, std::string_view model,
                          bool prefers_tokenizer_json = false);

}  // namespace kinema::text
