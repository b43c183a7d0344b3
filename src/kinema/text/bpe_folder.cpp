#include "kinema/text/bpe_folder.h"

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/text/json_member.h"

namespace kinema::text {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr size_t kLargestFile = size_t{64} << 20;

/// The bytes of a required file.
io::MappedFile open_file(const fs::path& folder, const char* name, std::string_view model) {
  check(fs::exists(folder / name), "[text] {} holds no {}: a {} tokenizer has {} and {}, or {}",
        folder.string(), name, model, kVocabularyFile, kMergesFile, kTokenizerFile);
  io::MappedFile file = io::MappedFile::open(folder / name);
  check(file.bytes().size() <= kLargestFile, "[text] {} has {} bytes, more than {}", file.path(),
        file.bytes().size(), kLargestFile);
  return file;
}

std::string_view characters(const io::MappedFile& file) {
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

BpeFolder read_tokenizer_json(const io::MappedFile& file, std::string_view name) {
  const std::string_view model = member_of(characters(file), "model", file.path());
  const Json type =
      Json::parse(member_of(model, "type", file.path()), where_in(file, "model.type"));
  check(type.is_string() && type.as_string() == "BPE",
        "[text] {} is {}, expected `BPE`: {}'s tokens are byte pairs", where_in(file, "model.type"),
        type.brief(), name);
  BpeFolder out{.vocabulary = parse_vocabulary(member_of(model, "vocab", file.path()),
                                               where_in(file, "model.vocab")),
                .merges = parse_merges(Json::parse(member_of(model, "merges", file.path()),
                                                   where_in(file, "model.merges")))};
  if (const std::string_view added = json_member(characters(file), "added_tokens");
      !added.empty()) {
    const Json tokens = Json::parse(added, where_in(file, "added_tokens"));
    for (const Json& each : tokens.items()) {
      out.added.push_back(added_token(each, each.at("id").as_int()));
    }
  }
  file.check_intact();
  return out;
}

}  // namespace

BpeFolder read_bpe_folder(const fs::path& folder, std::string_view model,
                          bool prefers_tokenizer_json) {
  const bool has_vocabulary = fs::exists(folder / kVocabularyFile);
  if (fs::exists(folder / kTokenizerFile) && (prefers_tokenizer_json || !has_vocabulary)) {
    return read_tokenizer_json(open_file(folder, kTokenizerFile, model), model);
  }
  const io::MappedFile vocabulary = open_file(folder, kVocabularyFile, model);
  BpeFolder out{.vocabulary = parse_vocabulary(characters(vocabulary), vocabulary.path())};
  const io::MappedFile merges = open_file(folder, kMergesFile, model);
  out.merges = parse_merges(characters(merges), merges.path());
  return out;
}

}  // namespace kinema::text
