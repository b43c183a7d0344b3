#include <algorithm>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/text/json_member.h"
#include "kinema/text/sentencepiece.h"
#include "kinema/text/tokenizer.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

namespace fs = std::filesystem;
using io::Json;

// The default number of T5's extra ids.
constexpr int64_t kDefaultExtraIds = 100;
constexpr int64_t kMostExtraIds = 100000;
// Several times the largest vocabulary in use.
constexpr int64_t kMostTokens = 1 << 20;
constexpr size_t kLargestFile = size_t{512} << 20;

/// T5's extra ids; the last id is <extra_id_0>.
std::vector<AddedToken> extra_ids(const Json* config, int64_t first) {
  const Json* given = config == nullptr ? nullptr : config->find("extra_ids");
  const int64_t count = given == nullptr || given->is_null() ? kDefaultExtraIds : given->as_int();
  check(count >= 0 && count <= kMostExtraIds, "[text] `extra_ids` is {}, expected 0 to {}", count,
        kMostExtraIds);
  std::vector<AddedToken> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back({.text = "<extra_id_" + std::to_string(count - 1 - i) + ">", .id = first + i});
  }
  return out;
}

/// The existing files of a tokenizer folder.
struct Files {
  explicit Files(const fs::path& where) : folder(where) {
    if (fs::exists(folder / "tokenizer.json")) {
      json_file = io::MappedFile::open(folder / "tokenizer.json");
      check(json_file.bytes().size() <= kLargestFile, "[text] {} has {} bytes, more than {}",
            json_file.path(), json_file.bytes().size(), kLargestFile);
    }
    if (fs::exists(folder / "tokenizer_config.json")) {
      config = Json::read(folder / "tokenizer_config.json");
    }
  }

  const Json* settings() const { return config ? &*config : nullptr; }

  /// A member of tokenizer.json, without parsing the vocabulary, which is most of the file.
  std::optional<Json> member(std::string_view key) const {
    const std::string_view text(reinterpret_cast<const char*>(json_file.bytes().data()),
                                json_file.bytes().size());
    const std::string_view found = json_member(text, key);
    if (found.empty()) {
      return std::nullopt;
    }
    return Json::parse(found, json_file.path() + " (`" + std::string(key) + "`)");
  }

  fs::path folder;
  io::MappedFile json_file;
  std::optional<Json> config;
};

std::string decode_base64(const std::string& text, const std::string& where) {
  const auto digit = [&](char c) -> uint32_t {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t at = kDigits.find(c);
    check(at != std::string_view::npos, "[text] {} is not base64", where);
    return static_cast<uint32_t>(at);
  };
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : std::string_view(text).substr(0, text.find('='))) {
    bits = bits << 6 | digit(c);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xffU);
    }
  }
  return out;
}

/// The map of the first `Precompiled` normalizer.
CharMap json_normalization(const std::optional<Json>& normalizer) {
  if (!normalizer || !normalizer->is_object()) {
    return {};
  }
  std::vector<Json> all{*normalizer};
  if (const Json* parts = normalizer->find("normalizers"); parts != nullptr) {
    all = parts->items();
  }
  for (const Json& each : all) {
    if (const Json* map = each.find("precompiled_charsmap"); map != nullptr) {
      return CharMap(decode_base64(map->as_string(), map->where()));
    }
  }
  return {};
}

/// Pieces and normalisation of a folder without spiece.model.
SentencePieceModel json_model(const Files& files) {
  const std::optional<Json> model = files.member("model");
  check(model.has_value(), "[text] {} holds neither spiece.model nor a tokenizer.json with a model",
        files.folder.string());
  const Json& type = model->at("type");
  check(type.as_string() == "Unigram", "[text] {} is `{}`, expected `Unigram`", type.where(),
        type.as_string());
  SentencePieceModel out;
  for (const Json& piece : model->at("vocab").items()) {
    const std::vector<Json>& pair = piece.items();
    check(pair.size() == 2, "[text] {} is not a pair of text and score", piece.where());
    out.pieces.push_back({pair[0].as_string(), pair[1].as_number()});
  }
  check(!out.pieces.empty(), "[text] {} is empty", model->at("vocab").where());
  out.normalization = json_normalization(files.member("normalizer"));
  return out;
}

SentencePieceModel read_model(const Files& files) {
  const fs::path path = files.folder / "spiece.model";
  if (!fs::exists(path)) {
    return json_model(files);
  }
  const io::MappedFile file = io::MappedFile::open(path);
  return parse_sentencepiece(file.bytes(), file.path());
}

std::vector<AddedToken> read_added(const Files& files, int64_t pieces) {
  std::vector<AddedToken> out;
  if (const std::optional<Json> added = files.member("added_tokens")) {
    for (const Json& each : added->items()) {
      out.push_back(added_token(each, each.at("id").as_int()));
    }
  } else if (files.config && files.config->contains("added_tokens_decoder")) {
    out = decoder_tokens(files.config->at("added_tokens_decoder"));
  } else {
    out = extra_ids(files.settings(), pieces);
  }
  return out;
}

}  // namespace

Tokenizer Tokenizer::parse(std::span<const std::byte> bytes, const std::string& source) {
  SentencePieceModel model = parse_sentencepiece(bytes, source);
  TokenizerParts parts;
  parts.pieces = std::move(model.pieces);
  parts.normalization = std::move(model.normalization);
  const auto special = [&](std::string_view text) {
    const auto piece = std::ranges::find(parts.pieces, text, &Piece::text);
    check(piece != parts.pieces.end(), "[text] {}: the vocabulary does not have `{}`", source,
          text);
    const int64_t id = piece - parts.pieces.begin();
    parts.added.push_back({.text = std::string(text), .id = id});
    return id;
  };
  parts.end = special("</s>");
  parts.unknown = special("<unk>");
  parts.pad = special("<pad>");
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::open(const fs::path& folder) {
  check(fs::is_directory(folder), "[text] {} {}, expected the folder of a tokenizer",
        folder.string(), not_a_folder(folder));
  const Files files(folder);
  SentencePieceModel model = read_model(files);
  TokenizerParts parts;
  parts.pieces = std::move(model.pieces);
  parts.normalization = std::move(model.normalization);
  parts.added = read_added(files, static_cast<int64_t>(parts.pieces.size()));
  // Added tokens may follow the pieces; each then is a piece with score 0.
  std::ranges::sort(parts.added, {}, &AddedToken::id);
  for (const AddedToken& token : parts.added) {
    check(token.id >= 0 && token.id < kMostTokens,
          "[text] {}: the added token `{}` has id {}, expected 0 to {}", folder.string(),
          token.text, token.id, kMostTokens - 1);
    if (token.id >= static_cast<int64_t>(parts.pieces.size())) {
      // Unused ids have an empty text.
      parts.pieces.resize(static_cast<size_t>(token.id));
      parts.pieces.push_back({token.text, 0.0});
    }
  }
  const auto special = [&](std::string_view key, std::string_view otherwise) {
    const Json* named = files.config ? files.config->find(key) : nullptr;
    const std::string text =
        named == nullptr ? std::string(otherwise) : token_text(*named, otherwise);
    const auto piece = std::ranges::find(parts.pieces, text, &Piece::text);
    check(piece != parts.pieces.end(),
          "[text] {}: `{}` is `{}`, which the vocabulary does not have", folder.string(), key,
          text);
    const int64_t id = piece - parts.pieces.begin();
    if (std::ranges::find(parts.added, text, &AddedToken::text) == parts.added.end()) {
      parts.added.push_back({.text = text, .id = id});
    }
    return id;
  };
  parts.end = special("eos_token", "</s>");
  parts.unknown = special("unk_token", "<unk>");
  parts.pad = special("pad_token", "<pad>");
  return Tokenizer(std::move(parts));
}

}  // namespace kinema::text
