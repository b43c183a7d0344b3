#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/wiring.h"
#include "config/docs.h"
#include "config/keys.h"
#include "io/json.h"

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
    if (loaded.origin.contains(std::string(each.key))) {
      fmt::print("# {} ({}) has no meaning here: {}\n", each.key, origin(loaded, each.key),
                 each.reason);
    }
  }
}

int show_config(const ConfigOptions& options) {
  if (options.docs) {
    fmt::print("{}", config::markdown());
    return 0;
  }
  const config::Loaded loaded = load_arguments(options.words, /*need_file=*/false);
  check_values(loaded);
  if (options.json) {
    print_json(loaded);
  } else {
    print_yaml(loaded);
  }
  return 0;
}

}  // namespace

void add_config(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "config", "Print every key with its value and where it comes from; the output is a config");
  const auto options = std::make_shared<ConfigOptions>();
  command->add_option("CONFIG key=value", options->words, "a YAML file, and keys that win over it");
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--docs", options->docs, "print the table of all keys as Markdown");
  command->callback([options, &action] { action = [options] { return show_config(*options); }; });
}

}  // namespace kinema::cli
