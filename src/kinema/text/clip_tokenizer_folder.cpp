#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/text/bpe_folder.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/text/json_member.h"

namespace kinema::text {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kSpecial = "special_tokens_map.json";
constexpr std::string_view kDecoder = "added_tokens_decoder";
// A tokenizer without a limit has 10^30.
constexpr double kNoLimit = 1e9;
// Maximum of tokens added after a vocabulary; bounds the memory that a small file can request.
constexpr int64_t kMostAdded = 1 << 16;

std::optional<Json> read_if_there(const fs::path& path) {
  return fs::exists(path) ? std::optional(Json::read(path)) : std::nullopt;
}

/// The tokens of a tokenizer while its files are read.
class Reader {
 public:
  explicit Reader(const fs::path& folder)
      : folder_(folder),
        config_(read_if_there(folder / kConfig)),
        special_(read_if_there(folder / kSpecial)) {
    BpeFolder read = read_bpe_folder(folder, "CLIP");
    parts_.vocabulary = std::move(read.vocabulary);
    parts_.merges = std::move(read.merges);
    stated_ = std::move(read.added);
    for (size_t i = 0; i < parts_.vocabulary.size(); ++i) {
      ids_.emplace(parts_.vocabulary[i], static_cast<int64_t>(i));
    }
  }

  ClipTokenizerParts read() && {
    if (const Json* decoder = config_ ? config_->find(kDecoder) : nullptr) {
      // It is complete, so the older file next to it is ignored.
      special_.reset();
      stated_ = decoder_tokens(*decoder, true);
    }
    std::ranges::sort(stated_, {}, &AddedToken::id);
    for (AddedToken& token : stated_) {
      add(std::move(token));
    }
    // If one token has several roles, the flags of the last one apply.
    const size_t stated = parts_.added.size();
    parts_.start = special("bos_token", "<|startoftext|>", stated);
    parts_.end = special("eos_token", "<|endoftext|>", stated);
    parts_.unknown = special("unk_token", "<|endoftext|>", stated);
    parts_.pad = special("pad_token", "<|endoftext|>", stated);
    if (const Json* more = find("additional_special_tokens"); more != nullptr && !more->is_null()) {
      for (const Json& each : more->items()) {
        add(each.is_object() ? added_token(each, next_id())
                             : AddedToken{.text = each.as_string(), .id = next_id()});
      }
    }
    if (const Json* length = config_ ? config_->find("model_max_length") : nullptr;
        length != nullptr && !length->is_null() && length->as_number() < kNoLimit) {
      parts_.max_length = length->as_int();
      check(*parts_.max_length >= 2, "[text] {} is {}, expected at least 2", length->where(),
            *parts_.max_length);
    }
    return std::move(parts_);
  }

 private:
  /// Finds a key in the files that name special tokens.
  const Json* find(std::string_view key) const {
    const Json* value = special_ ? special_->find(key) : nullptr;
    return value != nullptr || !config_ ? value : config_->find(key);
  }

  int64_t next_id() const { return static_cast<int64_t>(parts_.vocabulary.size()); }

  /// A token of the vocabulary keeps its id; a new one is appended.
  void add(AddedToken token) {
    const auto known = ids_.find(token.text);
    if (known != ids_.end()) {
      token.id = known->second;
    } else if (!token.text.empty()) {
      check(token.id >= 0 && token.id < next_id() + kMostAdded,
            "[text] {}: the added token `{}` has id {}, expected 0 to {}", folder_.string(),
            token.text, token.id, next_id() + kMostAdded - 1);
      const auto at = static_cast<size_t>(token.id);
      parts_.vocabulary.resize(std::max(parts_.vocabulary.size(), at + 1));
      check(parts_.vocabulary[at].empty(),
            "[text] {}: the added token `{}` has id {}, which `{}` has in {}", folder_.string(),
            token.text, token.id, parts_.vocabulary[at], kVocabularyFile);
      parts_.vocabulary[at] = token.text;
      ids_.emplace(token.text, token.id);
    }
    const auto same = std::ranges::find(parts_.added, token.text, &AddedToken::text);
    if (same == parts_.added.end()) {
      parts_.added.push_back(std::move(token));
    } else {
      *same = std::move(token);
    }
  }

  /// The id of a special token, which the vocabulary must contain. The first `stated` added tokens
  /// keep their flags.
  int64_t special(std::string_view key, std::string_view otherwise, size_t stated) {
    const Json* value = find(key);
    const std::string text =
        value == nullptr ? std::string(otherwise) : token_text(*value, otherwise);
    const auto known = ids_.find(text);
    check(known != ids_.end(), "[text] {}: `{}` is `{}`, which {} does not have", folder_.string(),
          key, text, kVocabularyFile);
    const auto first = parts_.added.begin();
    const auto end = first + static_cast<std::ptrdiff_t>(stated);
    if (std::ranges::find(first, end, text, &AddedToken::text) == end) {
      add(value != nullptr && value->is_object() ? added_token(*value, known->second)
                                                 : AddedToken{.text = text, .id = known->second});
    }
    return known->second;
  }

  fs::path folder_;
  std::optional<Json> config_;
  std::optional<Json> special_;
  std::vector<AddedToken> stated_;
  ClipTokenizerParts parts_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace

bool ClipTokenizer::is_in(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / kMergesFile, ignored)) {
    return true;
  }
  if (!fs::exists(folder / kTokenizerFile, ignored)) {
    return false;
  }
  const io::MappedFile file = io::MappedFile::open(folder / kTokenizerFile);
  const std::string_view json(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return json_member(json_member(json, "model"), "type") == "\"BPE\"";
}

ClipTokenizer ClipTokenizer::open(const fs::path& folder) {
  check(fs::is_directory(folder), "[text] {} {}, expected the folder of a tokenizer",
        folder.string(), not_a_folder(folder));
  ClipTokenizerParts parts = Reader(folder).read();
  try {
    return ClipTokenizer(std::move(parts));
  } catch (const Error& error) {
    fail("{}\n  read from {}", error.what(), folder.string());
  }
}

}  // namespace kinema::text
