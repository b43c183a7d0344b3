#include <algorithm>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/io/json.h"
#include "kinema/text/bpe_folder.h"
#include "kinema/text/qwen_tokenizer.h"

namespace kinema::text {
namespace {

namespace fs = std::filesystem;

// Maximum of tokens added after a vocabulary; bounds the memory that a small file can request.
constexpr int64_t kMostAddedToQwen = 1 << 16;

/// Adds a token to the vocabulary, where it is not there yet.
void add(const AddedToken& token, const fs::path& folder, QwenTokenizerParts& parts,
         int64_t vocabulary) {
  check(token.id >= 0 && token.id < vocabulary + kMostAddedToQwen,
        "[text] {}: the added token `{}` has id {}, expected 0 to {}", folder.string(), token.text,
        token.id, vocabulary + kMostAddedToQwen - 1);
  const auto at = static_cast<size_t>(token.id);
  parts.vocabulary.resize(std::max(parts.vocabulary.size(), at + 1));
  std::string& text = parts.vocabulary[at];
  check(text.empty() || text == token.text,
        "[text] {}: the added token `{}` has id {}, which `{}` has", folder.string(), token.text,
        token.id, text);
  text = token.text;
  parts.added.push_back(token);
}

}  // namespace

QwenTokenizer QwenTokenizer::open(const fs::path& folder) {
  check(fs::is_directory(folder), "[text] {} {}, expected the folder of a tokenizer",
        folder.string(), not_a_folder(folder));
  constexpr const char* kConfig = "tokenizer_config.json";
  BpeFolder read = read_bpe_folder(folder, "Qwen", /*prefers_tokenizer_json=*/true);
  const std::optional<io::Json> config =
      fs::exists(folder / kConfig) ? std::optional(io::Json::read(folder / kConfig)) : std::nullopt;
  if (const io::Json* decoder = config ? config->find("added_tokens_decoder") : nullptr;
      read.added.empty() && decoder != nullptr) {
    read.added = decoder_tokens(*decoder);
  }
  QwenTokenizerParts parts{.vocabulary = std::move(read.vocabulary),
                           .merges = std::move(read.merges)};
  const auto vocabulary = static_cast<int64_t>(parts.vocabulary.size());
  for (const AddedToken& token : read.added) {
    add(token, folder, parts, vocabulary);
  }
  constexpr std::string_view kPad = "<|endoftext|>";
  const io::Json* stated = config ? config->find("pad_token") : nullptr;
  const std::string pad = stated == nullptr ? std::string(kPad) : token_text(*stated, kPad);
  const auto found = std::ranges::find(parts.added, pad, &AddedToken::text);
  check(found != parts.added.end(), "[text] {}: the pad token `{}` is not an added token",
        folder.string(), pad);
  parts.pad = found->id;
  // The chat template's words must be tokens of their own.
  for (const std::string_view each : {"<|im_start|>", "<|im_end|>"}) {
    check(std::ranges::find(parts.added, each, &AddedToken::text) != parts.added.end(),
          "[text] {} has no added token `{}`, expected the tokenizer of Qwen2 or Qwen3",
          folder.string(), each);
  }
  try {
    return QwenTokenizer(std::move(parts));
  } catch (const Error& error) {
    fail("{}\n  read from {}", error.what(), folder.string());
  }
}

}  // namespace kinema::text
