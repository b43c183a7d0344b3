#include "kinema/agents/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"

namespace kinema::agents {
namespace {

using io::Json;
using io::Yaml;
using Leaves = std::vector<std::pair<std::string, Yaml>>;

std::optional<Json> number_in(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(text.starts_with('-') || text.starts_with('+'));
  if (digits == ".inf" || digits == "inf") {
    const double infinity = std::numeric_limits<double>::infinity();
    return Json(is_negative ? -infinity : infinity);
  }
  if (digits.empty() ||
      !(std::isdigit(static_cast<unsigned char>(digits[0])) != 0 || digits[0] == '.')) {
    return {};
  }
  const std::string_view value = text.substr(text.starts_with('+'));
  const char* end = value.data() + value.size();
  int64_t whole = 0;
  if (const auto read = std::from_chars(value.data(), end, whole);
      read.ec == std::errc() && read.ptr == end) {
    return Json(whole);
  }
  double number = 0;
  const auto read = std::from_chars(value.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional<Json>(number) : std::nullopt;
}

/// What a scalar means where no type is expected.
Json meaning_of(const Yaml& scalar) {
  const std::string& text = scalar.text();
  if (scalar.kind() == Yaml::Kind::Null) {
    return Json("");
  }
  if (!scalar.quoted()) {
    if (text == "True" || text == "true") {
      return {true};
    }
    if (text == "False" || text == "false") {
      return {false};
    }
    if (const std::optional<Json> number = number_in(text)) {
      return *number;
    }
  }
  return Json(text);
}

Json value_of(const Yaml& yaml) {
  if (yaml.kind() != Yaml::Kind::Sequence) {
    return meaning_of(yaml);
  }
  Json items = Json::array();
  for (const Yaml& item : yaml.items()) {
    items.append(meaning_of(item));
  }
  return items;
}

void flatten(const Yaml& yaml, const std::string& prefix, Leaves& out) {
  for (const Yaml::Member& member : yaml.members()) {
    const std::string key = prefix.empty() ? member.key : prefix + "." + member.key;
    if (member.value.kind() == Yaml::Kind::Mapping) {
      flatten(member.value, key, out);
    } else {
      out.emplace_back(key, member.value);
    }
  }
}

const char* name_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::Bool:
      return "true or false";
    case Json::Kind::Integer:
      return "an integer";
    case Json::Kind::Number:
      return "a number";
    case Json::Kind::Array:
      return "a list";
    default:
      return "text";
  }
}

std::string text_of(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::Bool:
      return value.as_bool() ? "true" : "false";
    case Json::Kind::Integer:
      return std::to_string(value.as_int());
    case Json::Kind::Number: {
      std::string text = fmt::format("{}", value.as_number());
      return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
    }
    case Json::Kind::Array: {
      std::vector<std::string> items;
      for (const Json& item : value.items()) {
        items.push_back(text_of(item));
      }
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    default:
      return value.dump(-1);  // quoted
  }
}

/// A value of the default's type; nothing if it cannot be one.
std::optional<Json> as_type_of(const Json& standard, const Json& value) {
  if (standard.kind() == value.kind() && !standard.is_array()) {
    return value;
  }
  switch (standard.kind()) {
    case Json::Kind::Integer: {
      if (value.kind() != Json::Kind::Number) {
        return {};
      }
      const double number = value.as_number();
      constexpr double kLargest = 9e15;
      const bool is_whole = std::abs(number) < kLargest && number == std::floor(number);
      return is_whole ? std::optional<Json>(static_cast<int64_t>(number)) : std::nullopt;
    }
    case Json::Kind::Number:
      return value.kind() == Json::Kind::Integer
                 ? std::optional<Json>(static_cast<double>(value.as_int()))
                 : std::nullopt;
    case Json::Kind::String:
      // A word that looks like something else: run_name=7, task=1.
      return value.is_array() ? std::nullopt : std::optional<Json>(text_of(value));
    case Json::Kind::Array: {
      if (!value.is_array()) {
        return as_type_of(standard, Json::array({value}));
      }
      Json items = Json::array();
      for (const Json& item : value.items()) {
        const std::optional<Json> typed =
            standard.items().empty() ? item : as_type_of(standard.items()[0], item);
        if (!typed) {
          return {};
        }
        items.append(*typed);
      }
      return items;
    }
    default:
      return {};
  }
}

/// `.*\.units` and `*.units` -> `units`; nothing for keys without a pattern.
std::optional<std::string> end_in(std::string_view key) {
  for (const std::string_view begin : {".*\\.", "*."}) {
    if (key.starts_with(begin)) {
      std::string end;
      for (const char c : key.substr(begin.size())) {
        if (c != '\\') {
          end += c;
        }
      }
      return end;
    }
  }
  return {};
}

bool ends_with_part(std::string_view key, std::string_view end) {
  return key == end || (key.ends_with(end) && key[key.size() - end.size() - 1] == '.');
}

}  // namespace

const Json* Settings::find(std::string_view key) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.key == key; });
  return found == entries_.end() ? nullptr : &found->value;
}

const Json& Settings::at(std::string_view key) const {
  const Json* found = find(key);
  check(found != nullptr,
        "[settings] the defaults have no key `{}`\n  add it from configs/dreamer.yml", key);
  return *found;
}

int64_t Settings::whole(std::string_view key) const {
  const Json& value = at(key);
  const std::optional<Json> whole = as_type_of(Json(0), value);
  check(whole.has_value(), "[settings] `{}` is {} but must be an integer", key, text_of(value));
  return whole->as_int();
}

Json Settings::tree(std::string_view key) const {
  // Members in order, of which the last may be a branch that is still growing.
  const std::string prefix = std::string(key) + ".";
  const auto grow = [](const auto& self,
                       std::span<const std::pair<std::string, Json>> leaves) -> Json {
    Json out = Json::object();
    for (size_t i = 0; i < leaves.size();) {
      const std::string& path = leaves[i].first;
      const size_t dot = path.find('.');
      if (dot == std::string::npos) {
        out.set(path, leaves[i++].second);
        continue;
      }
      const std::string branch = path.substr(0, dot + 1);
      std::vector<std::pair<std::string, Json>> below;
      for (; i < leaves.size() && leaves[i].first.starts_with(branch); ++i) {
        below.emplace_back(leaves[i].first.substr(dot + 1), leaves[i].second);
      }
      out.set(path.substr(0, dot), self(self, below));
    }
    return out;
  };
  std::vector<std::pair<std::string, Json>> leaves;
  for (const Entry& entry : entries_) {
    if (entry.key.starts_with(prefix)) {
      leaves.emplace_back(entry.key.substr(prefix.size()), entry.value);
    }
  }
  return grow(grow, leaves);
}

std::vector<Settings::Entry*> Settings::entries_of(const std::string& pattern,
                                                   const std::string& where) {
  std::vector<Entry*> out;
  const std::optional<std::string> end = end_in(pattern);
  for (Entry& entry : entries_) {
    if (end ? ends_with_part(entry.key, *end) : entry.key == pattern) {
      out.push_back(&entry);
    }
  }
  if (out.empty() && !end) {
    std::vector<std::string> names;
    for (Entry& entry : entries_) {
      if (ends_with_part(entry.key, pattern)) {
        out.push_back(&entry);
        names.push_back(entry.key);
      }
    }
    check(out.size() < 2, "[settings] `{}` ({}) may be {}\n  give the whole key", pattern, where,
          fmt::join(names, " or "));
  }
  if (out.empty()) {
    const std::string_view name = end ? std::string_view(*end) : std::string_view(pattern);
    std::string nearest;
    int distance = std::numeric_limits<int>::max();
    for (const Entry& entry : entries_) {
      // Either the whole key is mistyped, or its last part alone was given.
      const std::string_view key = entry.key;
      for (const std::string_view candidate : {key, key.substr(key.rfind('.') + 1)}) {
        const int edits = edit_distance(candidate, name);
        if (edits < distance && is_near(candidate, name)) {
          distance = edits;
          nearest = key;
        }
      }
    }
    fail("[settings] there is no key `{}` ({}){}", pattern, where,
         nearest.empty() ? "" : "\n  the nearest one is `" + nearest + "`");
  }
  return out;
}

void Settings::set(const std::string& pattern, const Json& value, const std::string& where) {
  for (Entry* entry : entries_of(pattern, where)) {
    const std::optional<Json> typed = as_type_of(entry->standard, value);
    check(typed.has_value(), "[settings] `{}` ({}) is {} but must be {}, as its default {}",
          entry->key, where, text_of(value), name_of(entry->standard.kind()),
          text_of(entry->standard));
    entry->value = *typed;
  }
}

void Settings::apply(const Leaves& block) {
  for (const auto& [key, value] : block) {
    set(key, value_of(value), value.where());
  }
}

Settings Settings::with(std::string_view key, const Json& value) const {
  Settings out = *this;
  out.set(std::string(key), value, "set by the program");
  return out;
}

Settings Settings::read(const std::filesystem::path& file, std::span<const std::string> words) {
  const Yaml yaml = Yaml::read(file);
  const Yaml* defaults = yaml.find("defaults");
  check(defaults != nullptr && defaults->kind() == Yaml::Kind::Mapping,
        "[settings] {} has no block `defaults` with every key\n  begin with configs/dreamer.yml",
        file.string());
  Settings out;
  Leaves leaves;
  flatten(*defaults, "", leaves);
  for (const auto& [key, value] : leaves) {
    out.entries_.push_back({key, value_of(value), value_of(value)});
  }
  const auto split = [&](const std::string& word) {
    const size_t equals = word.find('=');
    check(equals != std::string::npos && equals > 0, "[settings] `{}` is not key=value", word);
    const size_t dashes = std::min(word.find_first_not_of('-'), equals);
    return std::pair(word.substr(dashes, equals - dashes), word.substr(equals + 1));
  };
  const auto apply_preset = [&](const std::string& name) {
    const Yaml* block = name == "defaults" ? nullptr : yaml.find(name);
    std::vector<std::string> known;
    for (const Yaml::Member& member : yaml.members()) {
      if (member.key != "defaults") {
        known.push_back(member.key);
      }
    }
    check(block != nullptr, "[settings] there is no preset `{}`\n  {} has {}", name, file.string(),
          fmt::join(known, ", "));
    Leaves changes;
    flatten(*block, "", changes);
    out.apply(changes);
  };
  bool has_presets = false;
  std::string task;
  for (const std::string& word : words) {
    const auto [key, value] = split(word);
    if (key == "task") {
      task = value;
    }
    if (key != "preset") {
      continue;
    }
    has_presets = true;
    for (size_t at = 0; at < value.size();) {
      const size_t comma = std::min(value.find(',', at), value.size());
      apply_preset(value.substr(at, comma - at));
      at = comma + 1;
    }
  }
  if (!has_presets && yaml.find(task) != nullptr && task != "defaults") {
    apply_preset(task);
  }
  for (const std::string& word : words) {
    const auto [key, value] = split(word);
    if (key != "preset") {
      const Yaml yaml_value = value.empty() ? Yaml() : Yaml::parse(value, key);
      check(yaml_value.kind() != Yaml::Kind::Mapping,
            "[settings] `{}` is not a value\n  give one key at a time: {}.KEY=VALUE", word, key);
      out.set(key == "hardware" ? "jax.platform" : key, value_of(yaml_value), "command line");
    }
  }
  return out;
}

std::string Settings::yaml() const {
  std::string out = "defaults:\n";
  std::vector<std::string> open;  // the mappings that the line before is in
  for (const Entry& entry : entries_) {
    std::vector<std::string> parts;
    for (size_t at = 0; at <= entry.key.size();) {
      const size_t dot = std::min(entry.key.find('.', at), entry.key.size());
      parts.push_back(entry.key.substr(at, dot - at));
      at = dot + 1;
    }
    size_t common = 0;
    while (common < open.size() && common + 1 < parts.size() && open[common] == parts[common]) {
      ++common;
    }
    open.resize(common);
    for (; open.size() + 1 < parts.size(); open.push_back(parts[open.size()])) {
      out += fmt::format("{:{}}{}:\n", "", 2 * (open.size() + 1), parts[open.size()]);
    }
    out +=
        fmt::format("{:{}}{}: {}\n", "", 2 * (open.size() + 1), parts.back(), text_of(entry.value));
  }
  return out;
}

std::vector<std::string> Settings::notices() const {
  struct Word {
    const char* key;
    const char* why;
  };
  static constexpr Word kWithoutEffect[] = {
      {"run.debug", "environments step while the agent computes"},
      {"run.duration", "the original does not read it either"},
      {"replay.priosignal", "the original does not read it either"},
      {"clock_addr", "the original does not read it either"},
      {"clock_port", "the original does not read it either"},
      {"agent.opt.momentum", "LaProp always has momentum"},
      {"agent.policy.unimix", "categorical policies have none, as in the original"},
      {"jax.policy_devices", "the policy is on the first device"},
  };
  static constexpr Word kRefused[] = {
      {"replicas", "one process trains; several are not there yet"},
      {"run.agent_process", "the agent runs in this process"},
      {"run.remote_replay", "replay is in this process"},
      {"run.remote_envs", "give run.env_addr for environments on another host"},
      {"replay.fracs.priority", "a train step gives no priorities, so all would be 0"},
  };
  std::vector<std::string> out;
  for (const Entry& entry : entries_) {
    if (text_of(entry.value) == text_of(entry.standard)) {
      continue;
    }
    for (const Word& word : kWithoutEffect) {
      if (entry.key == word.key) {
        out.push_back(fmt::format("`{}` has no effect: {}", entry.key, word.why));
      }
    }
    for (const Word& word : kRefused) {
      check(entry.key != word.key, "[settings] `{}` is {} but can only be {}: {}", entry.key,
            text_of(entry.value), text_of(entry.standard), word.why);
    }
  }
  return out;
}

}  // namespace kinema::agents
