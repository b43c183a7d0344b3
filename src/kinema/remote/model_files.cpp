#include "kinema/remote/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelIndex = "model_index.json";
constexpr std::string_view kIndexEnd = ".safetensors.index.json";

// The parts of pipelines; a repository may contain samples and other files too.
constexpr std::array<std::string_view, 11> kParts{
    "transformer",  "transformer_2",  "unet",           "vae",
    "text_encoder", "text_encoder_2", "tokenizer",      "tokenizer_2",
    "scheduler",    "image_encoder",  "image_processor"};

/// The files directly in `folder` (`` or `vae/`), without the folder's name.
std::vector<std::string> names_in(const std::vector<std::string>& all, const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& path : all) {
    if (path.starts_with(folder) && path.find('/', folder.size()) == std::string::npos) {
      out.push_back(path.substr(folder.size()));
    }
  }
  return out;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The parts of a name such as `train-00000-of-00003.parquet`.
struct NumberedName {
  std::string_view stem;  // `train`
  int count = 0;          // 3
  std::string_view end;   // `.parquet`
};

std::optional<NumberedName> numbered(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kDigits = 5;
  const auto number = [&](size_t begin) {  // -1: not five digits
    uint32_t value = 0;
    const char* const first = name.data() + begin;
    const auto [rest, error] = std::from_chars(first, first + kDigits, value);
    return error == std::errc() && rest == first + kDigits ? static_cast<int>(value) : -1;
  };
  for (size_t of = name.rfind(kOf); of != std::string_view::npos && of > kDigits;
       of = name.rfind(kOf, of - 1)) {
    const size_t dash = of - kDigits - 1;
    const size_t total = of + kOf.size();
    const size_t end = total + kDigits;
    if (name[dash] == '-' && end < name.size() && name[end] == '.' && number(dash + 1) >= 0 &&
        number(total) >= 0) {
      return NumberedName{name.substr(0, dash), number(total), name.substr(end)};
    }
  }
  return std::nullopt;
}

/// The weights among the names: with the stem of diffusers or transformers, sharded or not; else
/// the only safetensors file. Empty if there are none; throws if it is ambiguous.
std::vector<std::string> weights_of(const std::vector<std::string>& names,
                                    const std::string& where) {
  for (const std::string stem : {"diffusion_pytorch_model", "model"}) {
    if (const std::string index = stem + std::string(kIndexEnd); has(names, index)) {
      std::vector<std::string> out{index};
      for (const std::string& name : names) {
        const auto part = numbered(name);
        if (part && part->stem == stem && part->end == ".safetensors") {
          out.push_back(name);
        }
      }
      return out;
    }
    if (has(names, stem + ".safetensors")) {
      return {stem + ".safetensors"};
    }
  }
  std::vector<std::string> lone;
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors")) {
      lone.push_back(name);
    }
  }
  check(lone.size() <= 1,
        "[remote] {} has {} safetensors files, such as {}: which one?\n  name it: {}/FILE", where,
        lone.size(), lone.empty() ? "" : lone[0], where);
  return lone;
}

void add_folder(const std::vector<std::string>& all, const std::string& folder,
                const std::string& source, std::vector<std::string>& out) {
  const std::vector<std::string> names = names_in(all, folder);
  for (const std::string& name : names) {
    const bool index = name.find(".index.") != std::string::npos;
    if ((name.ends_with(".json") && !index) || name.ends_with(".model") || name == "merges.txt") {
      out.push_back(folder + name);
    }
  }
  const std::string where = folder.empty() ? source : fmt::format("{}/{}", source, folder);
  for (const std::string& name : weights_of(names, where)) {
    out.push_back(folder + name);
  }
}

std::vector<std::string> choose_parts(const std::vector<std::string>& all, const Wanted& wanted,
                                      const std::string& source) {
  std::vector<std::string> out{std::string(kModelIndex)};
  for (const std::string_view part : kParts) {
    const std::string folder = std::string(part) + "/";
    const bool asked = wanted.parts.empty() || has(wanted.parts, std::string(part));
    if (asked && std::ranges::any_of(
                     all, [&](const std::string& path) { return path.starts_with(folder); })) {
      add_folder(all, folder, source, out);
    }
  }
  return out;
}

/// The first missing file of those in a folder's index; else checks that it has a weights file.
std::string missing_weights(const fs::path& folder) {
  std::error_code ignored;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (fs::exists(entry.path(), ignored)) {  // a link may be dangling
      names.insert(entry.path().filename().string());
    }
  }
  for (const std::string& name : names) {
    if (name.ends_with(kIndexEnd)) {
      const io::Json index = io::Json::read(folder / name);
      for (const auto& [tensor, shard] : index.at("weight_map").members()) {
        if (!names.contains(shard.as_string())) {
          return shard.as_string();
        }
      }
      return "";
    }
  }
  const bool any = std::ranges::any_of(
      names, [](const std::string& name) { return name.ends_with(".safetensors"); });
  return any ? "" : "*.safetensors";
}

/// The first missing file of a part, by the kind of part.
std::string missing_in(const fs::path& folder, const std::string& part) {
  std::error_code ignored;
  const auto lacks = [&](const char* name) { return !fs::exists(folder / name, ignored); };
  if (part == "scheduler") {
    return lacks("scheduler_config.json") ? "scheduler_config.json" : "";
  }
  if (part.starts_with("tokenizer")) {
    const bool pairs = !lacks("vocab.json") && !lacks("merges.txt");  // CLIP's tokenizer
    return !pairs && lacks("tokenizer.json") && lacks("spiece.model") ? "tokenizer.json" : "";
  }
  if (part == "image_processor") {
    return lacks("preprocessor_config.json") ? "preprocessor_config.json" : "";
  }
  return lacks("config.json") ? "config.json" : missing_weights(folder);
}

/// All of `train-00000-of-00003.parquet` and similar names must exist; for other names, the
/// existing files are assumed to be all.
std::string missing_of_dataset(const fs::path& folder, const Wanted& wanted) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::error_code ignored;
    if (entry.is_regular_file(ignored)) {  // follows links
      names.push_back(entry.path().lexically_relative(folder).string());
    }
  }
  try {
    names = wanted.choose(std::move(names));
  } catch (const Error&) {
    return "every file that is wanted";
  }
  const std::set<std::string, std::less<>> there(names.begin(), names.end());
  std::set<std::tuple<std::string_view, int, std::string_view>> complete;
  for (const std::string& name : names) {
    const auto part = numbered(name);
    if (!part || !complete.emplace(part->stem, part->count, part->end).second) {
      continue;
    }
    for (int i = 0; i < part->count; ++i) {
      std::string each = fmt::format("{}-{:05}-of-{:05}{}", part->stem, i, part->count, part->end);
      if (!there.contains(each)) {
        return each;
      }
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> choose_files(const std::vector<std::string>& all, const Wanted& wanted,
                                      const std::string& source) {
  if (!wanted.file.empty()) {
    check(has(all, wanted.file), "[remote] {} has no file {}", source, wanted.file);
    return {wanted.file};
  }
  if (wanted.choose) {
    return wanted.choose(all);
  }
  if (has(all, std::string(kModelIndex))) {
    return choose_parts(all, wanted, source);
  }
  std::vector<std::string> out;
  add_folder(all, "", source, out);
  const bool weights = std::ranges::any_of(
      out, [](const std::string& name) { return name.ends_with(".safetensors"); });
  check(weights, "[remote] {} has neither a model_index.json nor weights in safetensors\n  {}",
        source,
        "original Wan releases keep some parts as pickles: take the one that ends in -Diffusers");
  return out;
}

std::string first_missing(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code ignored;
  const auto lacks = [&](const std::string& name) {
    return !fs::is_regular_file(folder / name, ignored);  // follows links
  };
  const auto found = std::ranges::find_if(names, lacks);
  return found == names.end() ? "" : *found;
}

std::string first_missing(const fs::path& folder, const Wanted& wanted) {
  std::error_code ignored;
  if (wanted.choose) {
    return missing_of_dataset(folder, wanted);
  }
  if (!wanted.file.empty()) {
    return fs::exists(folder / wanted.file, ignored) ? "" : wanted.file;
  }
  if (!fs::exists(folder / kModelIndex, ignored)) {
    return missing_weights(folder).empty() ? "" : std::string(kModelIndex);
  }
  const io::Json index = io::Json::read(folder / kModelIndex);
  for (const std::string_view name : kParts) {
    const std::string part(name);
    const io::Json* value = index.find(part);
    const bool listed = value != nullptr && value->is_array() && value->items().size() == 2 &&
                        !value->items()[0].is_null();
    if (listed && (wanted.parts.empty() || has(wanted.parts, part))) {
      if (const std::string missing = missing_in(folder / part, part); !missing.empty()) {
        return fmt::format("{}/{}", part, missing);
      }
    }
  }
  return "";
}

}  // namespace kinema::remote
