#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/text/json_member.h"

namespace kinema::text {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kMerges = "merges.txt";
constexpr const char* kBoth = "tokenizer.json";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kSpecial = "special_tokens_map.json";
constexpr std::string_view kDecoder = "added_tokens_decoder";
// A tokenizer without a limit has 10^30.
constexpr double kNoLimit = 1e9;
// Maximum of tokens added after a vocabulary; bounds the memory that a small file can request.
constexpr int64_t kMostAdded = 1 << 16;
constexpr size_t kLargestFile = size_t{64} << 20;

/// The bytes of a required file.
io::MappedFile open_file(const fs::path& folder, const char* name) {
  check(fs::exists(folder / name), "[text] {} holds no {}: a CLIP tokenizer has {} and {}, or {}",
        folder.string(), name, kVocabulary, kMerges, kBoth);
  io::MappedFile file = io::MappedFile::open(folder / name);
  check(file.bytes().size() <= kLargestFile, "[text] {} has {} bytes, more than {}", file.path(),
        file.bytes().size(), kLargestFile);
  return file;
}

std::string_view text_of(const io::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// A member of tokenizer.json or of its `model`: its text, found without parsing the others.
std::string_view member_of(std::string_view json, std::string_view key, const std::string& path) {
  const std::string_view found = json_member(json, key);
  check(!found.empty(), "[text] {} has no `{}`", path, key);
  return found;
}

std::string where_in(const io::MappedFile& file, std::string_view key) {
  return fmt::format("{} (`{}`)", file.path(), key);
}

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
    if (!fs::exists(folder / kVocabulary) && fs::exists(folder / kBoth)) {
      read_both(open_file(folder, kBoth));
    } else {
      const io::MappedFile vocabulary = open_file(folder, kVocabulary);
      parts_.vocabulary = parse_vocabulary(text_of(vocabulary), vocabulary.path());
      const io::MappedFile merges = open_file(folder, kMerges);
      parts_.merges = parse_merges(text_of(merges), merges.path());
    }
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
  /// Reads tokens, merges and added tokens from tokenizer.json.
  void read_both(const io::MappedFile& file) {
    const std::string_view model = member_of(text_of(file), "model", file.path());
    const Json type =
        Json::parse(member_of(model, "type", file.path()), where_in(file, "model.type"));
    check(type.is_string() && type.as_string() == "BPE",
          "[text] {} is {}, expected `BPE`: CLIP's tokens are byte pairs",
          where_in(file, "model.type"), type.brief());
    parts_.vocabulary =
        parse_vocabulary(member_of(model, "vocab", file.path()), where_in(file, "model.vocab"));
    parts_.merges = parse_merges(
        Json::parse(member_of(model, "merges", file.path()), where_in(file, "model.merges")));
    if (const std::string_view added = json_member(text_of(file), "added_tokens"); !added.empty()) {
      const Json tokens = Json::parse(added, where_in(file, "added_tokens"));
      for (const Json& each : tokens.items()) {
        stated_.push_back(added_token(each, each.at("id").as_int()));
      }
    }
    file.check_intact();
  }

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
            token.text, token.id, parts_.vocabulary[at], kVocabulary);
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
          key, text, kVocabulary);
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
  if (fs::exists(folder / kMerges, ignored)) {
    return true;
  }
  if (!fs::exists(folder / kBoth, ignored)) {
    return false;
  }
  const io::MappedFile file = io::MappedFile::open(folder / kBoth);
  return json_member(json_member(text_of(file), "model"), "type") == "\"BPE\"";
}

ClipTokenizer ClipTokenizer::open(const fs::path& folder) {
  check(fs::is_directory(folder), "[text] {} is not a folder: expected a tokenizer's",
        folder.string());
  ClipTokenizerParts parts = Reader(folder).read();
  try {
    return ClipTokenizer(std::move(parts));
  } catch (const Error& error) {
    fail("{}\n  read from {}", error.what(), folder.string());
  }
}

}  // namespace kinema::text
