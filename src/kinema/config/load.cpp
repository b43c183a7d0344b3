#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <concepts>
#include <type_traits>
#include <utility>

#include "kinema/config/config.h"
#include "kinema/config/keys.h"
#include "kinema/config/lora.h"
#include "kinema/config/part_files.h"
#include "kinema/config/read_value.h"
#include "kinema/config/scalar.h"
#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/yaml.h"

namespace kinema::config {
namespace {

using io::Yaml;
namespace fs = std::filesystem;

constexpr std::string_view kXlaFlags = "xla_flags";
constexpr std::string_view kVariable = "KINEMA_KEY_";
constexpr std::string_view kPluginVariable = "KINEMA_PJRT_PLUGIN";  // the module `runtime` reads it
constexpr std::string_view kDefaults = "defaults";

template <typename T>
constexpr bool is_scalar =
    std::same_as<T, bool> || std::same_as<T, int64_t> || std::same_as<T, double>;

[[noreturn]] void unknown_key(std::string_view key, std::string_view where) {
  fail("[config] there is no key `{}` ({}); {}", key, where, unknown_key_hint(key));
}

/// Sets the member named `key` by assign(value, field); false when there is none.
template <typename Assign>
bool with_field(Config& config, std::string_view key, Assign assign) {
  bool found = false;
  Config::fields(config, [&](std::string_view name, auto& value, OnResume, const Field& field) {
    if (name == key) {
      found = true;
      assign(value, field);
    }
  });
  return found;
}

void note_ignored(Loaded& loaded, const std::string& key, const std::string& where) {
  if (!loaded.origin.contains(key)) {
    loaded.ignored.push_back(key);
  }
  loaded.origin[key] = where;
}

void set_member(Loaded& loaded, const Yaml::Member& member, const std::string& where) {
  const bool known = with_field(loaded.config, member.key, [&](auto& value, const Field& field) {
    read_value({.key = member.key, .value = member.value, .where = where}, field, value);
  });
  if (!known) {
    unknown_key(member.key, where);
  }
}

void apply_member(Loaded& loaded, const Yaml::Member& member) {
  const std::string where = member.value.where();
  if (is_ignored(member.key)) {
    note_ignored(loaded, member.key, where);
    return;
  }
  set_member(loaded, member, where);
  loaded.origin[member.key] = where;
}

/// Sets values below `defaults:`, which do not count as given.
void apply_defaults(Loaded& loaded, const Yaml& defaults) {
  check(defaults.kind() == Yaml::Kind::Mapping || defaults.kind() == Yaml::Kind::Null,
        "[config] {} ({}) is not a list of `key: value` lines", kDefaults, defaults.where());
  for (const Yaml::Member& member : defaults.members()) {
    if (!loaded.origin.contains(member.key) && !is_ignored(member.key)) {
      set_member(loaded, member, member.value.where());
    }
  }
}

void apply_file(Loaded& loaded, const fs::path& file, int depth) {
  constexpr int kDeepest = 8;
  check(depth <= kDeepest,
        "[config] {}: more than {} files are chained by `base`; is there a cycle?", file.string(),
        kDeepest);
  const Yaml yaml = Yaml::read(file);
  check(yaml.kind() == Yaml::Kind::Mapping || yaml.kind() == Yaml::Kind::Null,
        "[config] {} is not a list of `key: value` lines", file.string());
  if (const Yaml* base = yaml.find("base")) {
    check(base->kind() == Yaml::Kind::Scalar && !base->text().empty(),
          "[config] base ({}) must name a file", base->where());
    const fs::path base_file = file.parent_path() / base->text();
    std::error_code ignored;
    check(fs::exists(base_file, ignored), "[config] base ({}) is {}, which does not exist",
          base->where(), base_file.string());
    apply_file(loaded, base_file, depth + 1);
  }
  if (const Yaml* defaults = yaml.find(kDefaults)) {
    apply_defaults(loaded, *defaults);
  }
  for (const Yaml::Member& member : yaml.members()) {
    if (member.key != "base" && member.key != kDefaults) {
      apply_member(loaded, member);
    }
  }
}

/// The text after `key=` as YAML: unchanged for text and numbers, parsed for lists and mappings.
template <typename T>
Yaml as_yaml(const std::string& text, const std::string& source) {
  if constexpr (std::same_as<T, std::string> || is_scalar<T> || std::is_enum_v<T>) {
    if (is_scalar<T> && is_null(text)) {
      return {};
    }
    return Yaml::parse(io::Json(text).dump(-1), source);
  } else {
    return Yaml::parse(text, source);
  }
}

/// `xla_flags.NAME=VALUE`: adds a flag, or overrides a file's.
void apply_flag(Loaded& loaded, const std::string& key, const std::string& text,
                const std::string& where) {
  Tree& tree = loaded.config.run.xla_flags;
  io::Json flags = io::Json::parse(tree.json, kXlaFlags);
  if (!flags.is_object()) {
    flags = io::Json::object();
  }
  flags.set(key.substr(kXlaFlags.size() + 1), text);
  tree.json = flags.dump(-1);
  loaded.origin[key] = where;
  loaded.origin.emplace(kXlaFlags, where);
}

void apply_value(Loaded& loaded, const std::string& key, const std::string& text,
                 const std::string& where) {
  check(is_utf8(key) && is_utf8(text), "[config] {} ({}) is not text in UTF-8", key, where);
  if (is_ignored(key)) {
    note_ignored(loaded, key, where);
    return;
  }
  if (key.starts_with(std::string(kXlaFlags) + ".") && key.size() > kXlaFlags.size() + 1) {
    apply_flag(loaded, key, text, where);
    return;
  }
  const bool known = with_field(loaded.config, key, [&](auto& value, const Field& field) {
    const Yaml yaml =
        as_yaml<std::remove_cvref_t<decltype(value)>>(text, fmt::format("{} ({})", key, where));
    read_value({.key = key, .value = yaml, .where = where}, field, value);
  });
  if (!known) {
    unknown_key(key, where);
  }
  loaded.origin[key] = where;
}

void apply_override(Loaded& loaded, const std::string& override_text) {
  const size_t equals = override_text.find('=');
  check(equals != std::string::npos && equals > 0,
        "[config] `{}` on the command line is not of the form key=value", override_text);
  apply_value(loaded, override_text.substr(0, equals), override_text.substr(equals + 1),
              std::string(kCommandLine));
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The key of a variable in capitals; a few keys have capitals themselves.
std::string key_of_variable(const std::string& name) {
  std::string key = lower(name);
  const Config defaults;
  Config::fields(defaults, [&](std::string_view each, const auto&, OnResume, const Field&) {
    if (lower(std::string(each)) == key) {
      key = each;
    }
  });
  return key;
}

/// Throws an Error for variables such as KINEMA_MAX_TRAIN_STEPS, which was meant to set a key.
/// Other variables with the prefix KINEMA_ are ignored.
void check_meant_key(const std::string& name) {
  constexpr std::string_view kPrefix = "KINEMA_";
  const std::string word = lower(name.substr(kPrefix.size()));
  const int typo = std::min<int>(2, static_cast<int>(word.size()) / 4);
  const std::string key = nearest_key(word);
  std::string variable = std::string(kVariable) + key;
  std::ranges::transform(variable, variable.begin(),
                         [](unsigned char c) { return std::toupper(c); });
  check(word.empty() || edit_distance(word, key) > typo,
        "[config] the variable {} sets nothing\n  {} would set {}", name, variable, key);
}

void apply_variable(Loaded& loaded, const std::string& variable) {
  const size_t equals = variable.find('=');
  if (!variable.starts_with("KINEMA_") || equals == std::string::npos) {
    return;
  }
  const std::string name = variable.substr(0, equals);
  if (!name.starts_with(kVariable)) {
    if (name != kPluginVariable) {
      check_meant_key(name);
    }
    return;
  }
  apply_value(loaded, key_of_variable(name.substr(kVariable.size())), variable.substr(equals + 1),
              name);
}

/// MaxDiffusion's `resolution` sets height and width unless these are given.
void apply_resolution(Loaded& loaded) {
  const int64_t resolution = loaded.config.data.resolution;
  if (resolution > 0 && !loaded.origin.contains("height") && !loaded.origin.contains("width")) {
    loaded.config.generate.height = resolution;
    loaded.config.generate.width = resolution;
    loaded.origin["height"] = loaded.origin["width"] = "resolution";
  }
}

/// One axis of the mesh gets the remaining devices: context, unless another axis is -1.
void apply_open_axis(Loaded& loaded) {
  ParallelConfig& p = loaded.config.parallel;
  const auto leave = [&](const char* context_key, int64_t& context,
                         std::initializer_list<int64_t> others) {
    if (!loaded.origin.contains(context_key)) {
      context = std::ranges::count(others, -1) > 0 ? 1 : -1;
    }
  };
  leave("ici_context_parallelism", p.ici_context_parallelism,
        {p.ici_data_parallelism, p.ici_fsdp_parallelism, p.ici_tensor_parallelism});
  leave("dcn_context_parallelism", p.dcn_context_parallelism,
        {p.dcn_data_parallelism, p.dcn_fsdp_parallelism, p.dcn_tensor_parallelism});
}

/// Replaces synonyms, so that each value is one reader. Pictures are clips of one frame, unless
/// num_frames or buckets were given.
void apply_dataset_type(Loaded& loaded) {
  DataConfig& data = loaded.config.data;
  if (data.datasets != DataConfig{}.datasets && !loaded.is_set("dataset_type")) {
    data.dataset_type = DatasetType::VIDEOS;
  }
  const bool by_name = loaded.origin.contains("dataset_name") && !data.dataset_name.empty() &&
                       data.train_data_dir.empty();
  if (data.dataset_type == DatasetType::IMAGES) {
    data.dataset_type = DatasetType::VIDEOS;
    if (!loaded.is_set("num_frames") && data.buckets == DataConfig{}.buckets) {
      loaded.config.generate.num_frames = 1;
    }
  } else if (data.dataset_type == DatasetType::TF && by_name) {
    data.dataset_type = DatasetType::HF;
  }
}

/// Converts `lora` to enable_lora and lora_config.
void apply_lora_files(Loaded& loaded) {
  ModelConfig& model = loaded.config.model;
  if (model.lora.empty()) {
    return;
  }
  model.lora_config.json = with_lora_files(model.lora_config.json, std::exchange(model.lora, ""));
  model.enable_lora = true;
  const auto given = loaded.origin.find("lora");
  const std::string where = given == loaded.origin.end() ? "lora" : given->second;
  loaded.origin.erase("lora");
  loaded.origin["lora_config"] = where;
  loaded.origin["enable_lora"] = where;
}

/// Sets the keys of the trained adapter from lora_config, as in MaxDiffusion's files; given keys
/// override them.
void apply_lora_config(Loaded& loaded) {
  const std::string where = "lora_config";
  for (const auto& [key, text] : trained_in_lora_config(loaded.config.model)) {
    const auto origin = loaded.origin.find(key);
    if (origin == loaded.origin.end() || origin->second == where) {
      apply_value(loaded, key, text, where);
    }
  }
}

void note_given(Loaded& loaded) {
  Config::members(loaded.config, [&](std::string_view key, auto& member, OnResume, const Field&) {
    if constexpr (is_given<std::remove_cvref_t<decltype(member)>>) {
      member.given = loaded.origin.contains(std::string(key));
    }
  });
}

void apply(Loaded& loaded, std::span<const std::string> overrides,
           std::span<const std::string> environment) {
  for (const std::string& each : environment) {
    apply_variable(loaded, each);
  }
  for (const std::string& each : overrides) {
    apply_override(loaded, each);
  }
  apply_resolution(loaded);
  apply_open_axis(loaded);
  apply_dataset_type(loaded);
  apply_part_files(loaded);
  apply_lora_files(loaded);
  apply_lora_config(loaded);
  note_given(loaded);
}

}  // namespace

Loaded load(const fs::path& file, std::span<const std::string> overrides,
            std::span<const std::string> environment) {
  Loaded loaded;
  apply_file(loaded, file, 1);
  apply(loaded, overrides, environment);
  return loaded;
}

Loaded load_defaults(std::span<const std::string> overrides,
                     std::span<const std::string> environment) {
  Loaded loaded;
  apply(loaded, overrides, environment);
  return loaded;
}

void set(Loaded& loaded, const std::string& key, const std::string& value,
         const std::string& origin) {
  check(key != "base" && key != kDefaults, "[config] `{}` is only for files; it cannot be set",
        key);
  apply_value(loaded, key, value, origin);
  apply_resolution(loaded);
  apply_open_axis(loaded);
  apply_dataset_type(loaded);
  apply_lora_files(loaded);
  apply_lora_config(loaded);
  note_given(loaded);
}

Loaded of_run(Loaded loaded) {
  const std::string source(kDefaults);
  for (const KeyValue& each : describe(Config{})) {
    if (each.field.of != Of::RUN) {
      const Yaml line = Yaml::parse(fmt::format("{}: {}", each.key, each.value), source);
      set_member(loaded, line.members().front(), source);
      loaded.origin.erase(std::string(each.key));
    }
  }
  note_given(loaded);
  return loaded;
}

std::string to_yaml(const Loaded& loaded) {
  std::string out =
      fmt::format("{}: first what was given and where, then the defaults.\n", kYamlHeader);
  std::string rest;
  const auto begin_group = [](std::string& text, std::string_view group, std::string_view indent) {
    const std::string head = fmt::format("\n{}# {}\n", indent, group);
    if (text.find(head) == std::string::npos) {
      text += head;
    }
  };
  for (const KeyValue& each : describe(loaded.config)) {
    const std::string line = fmt::format("{}: {}", each.key, each.value);
    if (const auto found = loaded.origin.find(std::string(each.key));
        found != loaded.origin.end()) {
      begin_group(out, each.group, "");
      out += fmt::format("{:<60}  # {}\n", line, found->second);
    } else {
      begin_group(rest, each.group, "  ");
      rest += fmt::format("  {}\n", line);
    }
  }
  return rest.empty() ? out : out + fmt::format("\n{}:\n", kDefaults) + rest.substr(1);
}

bool on_command_line(const Loaded& loaded, const std::string& key) {
  const auto found = loaded.origin.find(key);
  return found != loaded.origin.end() && found->second == kCommandLine;
}

}  // namespace kinema::config
