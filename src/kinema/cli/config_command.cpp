#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "kinema/cli/commands.h"
#include "kinema/config/docs.h"
#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/resolve/load.h"

namespace kinema::cli {
namespace {

struct ConfigOptions {
  std::vector<std::string> words;
  bool json = false;
  bool docs = false;
};

std::string origin(const config::Loaded& loaded, std::string_view key) {
  const auto found = loaded.origin.find(std::string(key));
  return found == loaded.origin.end() ? "default" : found->second;
}

void print_json(const config::Loaded& loaded) {
  io::Json values = io::Json::object();
  for (const config::KeyValue& each : describe(loaded.config)) {
    io::Json entry = io::Json::object();
    entry.set("value", io::Json::parse(each.value, each.key));
    entry.set("origin", origin(loaded, each.key));
    values.set(each.key, std::move(entry));
  }
  io::Json ignored = io::Json::array();
  for (const std::string& key : loaded.ignored) {
    ignored.append(key);
  }
  io::Json report = io::Json::object();
  report.set("config", std::move(values)).set("ignored", std::move(ignored));
  fmt::print("{}\n", report.dump());
}

void print_yaml(const config::Loaded& loaded) {
  fmt::print("{}", to_yaml(loaded));
  for (const config::IgnoredKey& each : config::ignored_keys()) {
    if (loaded.is_set(std::string(each.key))) {
      fmt::print("# {} ({}) has no meaning in kinema: {}\n", each.key, origin(loaded, each.key),
                 each.reason);
    }
  }
}

/// True for an argument that can only mean a key: no such file exists, and it does not look like a
/// file name.
bool is_key(const std::string& word) {
  const bool is_name = word.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
  std::error_code ignored;
  return is_name && !std::filesystem::exists(word, ignored);
}

/// The conditions under which a key has an effect, in addition to its help.
std::vector<std::string> effect_lines(const config::KeyValue& key) {
  std::vector<std::string> out;
  if (!key.field.with.empty()) {
    out.push_back(fmt::format("only with {}", key.field.with));
  }
  if (!key.field.without.empty()) {
    out.push_back("ignored with pretrained weights, which have their own");
  }
  if (!key.field.later.empty()) {
    out.push_back(fmt::format("not implemented yet: {}", key.field.later));
  }
  switch (key.on_resume) {
    case config::MUST_MATCH:
      out.push_back("a run resumes only with the value it was started with");
      break;
    case config::MAY_CHANGE:
      out.push_back("a run may resume with another value, which it then prints");
      break;
    case config::UNRELATED:
      break;
  }
  return out;
}

/// Explains a key: one of kinema's, an ignored one, or one of another trainer's.
int explain(const std::string& word, bool json) {
  for (const config::IgnoredKey& each : config::ignored_keys()) {
    if (each.key == word) {
      fmt::print("{} has no meaning in kinema: {}\n", word, each.reason);
      return 0;
    }
  }
  const std::vector<config::KeyValue> keys = describe(config::Config{});
  const auto key = std::ranges::find(keys, word, &config::KeyValue::key);
  check(key != keys.end(), "[config] there is no key `{}`; {}", word,
        config::unknown_key_hint(word));
  const std::string values = config::expectation(key->type, key->field);
  if (json) {
    io::Json report = io::Json::object();
    report.set("key", word)
        .set("help", key->field.help)
        .set("group", key->group)
        .set("values", values)
        .set("default", io::Json::parse(key->value, word));
    fmt::print("{}\n", report.dump());
    return 0;
  }
  fmt::print("{}: {}\n  values   {}\n  default  {}\n  group    {}\n", word, key->field.help, values,
             key->value, key->group);
  for (const std::string& line : effect_lines(*key)) {
    fmt::print("  {}\n", line);
  }
  return 0;
}

int show_config(const ConfigOptions& options) {
  if (options.docs) {
    check(options.words.empty(), "[config] --docs prints all keys: `{}` has no effect",
          options.words.empty() ? "" : options.words.front());
    fmt::print("{}", config::markdown());
    return 0;
  }
  if (options.words.size() == 1 && is_key(options.words[0])) {
    return explain(options.words[0], options.json);
  }
  const config::Loaded loaded = load_arguments(options.words, /*need_file=*/false);
  resolve::check_values(loaded);
  if (options.json) {
    print_json(loaded);
  } else {
    print_yaml(loaded);
  }
  return 0;
}

}  // namespace

void add_config(Program& program) {
  Command command = program.add("config",
                                "Print every key with its value and origin (the output is a "
                                "configuration), or explain one KEY");
  const auto options = std::make_shared<ConfigOptions>();
  command.option("CONFIG key=value | KEY", options->words,
                 "a YAML file, and keys that override it; or the name of a key");
  command.flag("--json", options->json, "print JSON");
  command.flag("--docs", options->docs, "print the table of all keys as Markdown");
  command.run([options] { return show_config(*options); });
}

}  // namespace kinema::cli
