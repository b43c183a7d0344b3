#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "kinema/flags/environment.h"
#include "kinema/flags/finding.h"
#include "kinema/flags/flag.h"
#include "kinema/flags/probe.h"
#include "kinema/io/json.h"

namespace kinema::flags {

/// A flag that a profile, the configuration or the command line sets.
struct GivenFlag {
  std::string name;
  std::string value;
  std::string origin;  ///< `profile wan-train-v6e`, `wan.yml:12`, `command line`
};

/// All that determines the flags of a run.
struct Request {
  Platform platform;
  std::string libtpu_init_args;  ///< the variables' texts as the user set them
  std::string xla_flags;
  std::vector<GivenFlag> own;    ///< set by kinema's kernels unless the user has set another value
  std::vector<GivenFlag> given;  ///< later ones win
  bool deterministic = false;    ///< results must not depend on the run or the devices
  std::vector<std::string> allow;  ///< ids of rules whose errors the user lets pass
  Probe probe;  ///< asked about names and versions that are not in the table; may be empty
};

/// One of the values set for a flag; the last layer counts.
struct Layer {
  std::string value;  ///< canonical
  std::string origin;
  std::string word;        ///< as written in the environment variable
  bool is_option = false;  ///< passed to the compiler with each program
};

/// A flag with all its values, lowest layer (the plugin's default) first.
struct Setting {
  std::vector<Layer> layers;
  const Layer& top() const { return layers.back(); }
  bool is_given() const { return top().origin != kDefault; }
  static constexpr std::string_view kDefault = "default";
};

/// The flags that a program is compiled with, and the findings about them.
struct Effective {
  Platform platform;
  bool deterministic = false;
  std::map<std::string, Setting> settings;  ///< by name, defaults included
  std::vector<Finding> findings;            ///< errors first

  /// The value, or empty where the plugin has no such flag.
  std::string value(std::string_view name) const;
  /// The options of each program: set by profile, configuration, command line and our kernels.
  std::map<std::string, Value> options() const;
  /// Errors that the user did not allow.
  std::vector<Finding> errors() const;
  /// Ids of the errors that the user allowed, each once.
  std::vector<std::string> allowed() const;
};

/// Merges the layers and applies every rule. A user's mistake is a finding, never an exception.
Effective resolve(const Request& request);

/// Everything about a run's flags, as stored in its folder.
io::Json to_json(const Effective& effective);

/// The platform and the given flags only, from the same JSON.
io::Json given_json(const Effective& effective);

/// One `NAME=VALUE  # origin` per line; without `all` only what was given.
std::string to_text(const Effective& effective, bool all);

/// One or two lines about a finding.
std::string to_text(const Finding& finding);

}  // namespace kinema::flags
