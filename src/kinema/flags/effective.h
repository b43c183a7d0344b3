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

/// All that decides the flags of a run.
struct Request {
  Platform platform;
  std::string libtpu_init_args;  ///< the variables' texts as the user has them
  std::string xla_flags;
  std::vector<GivenFlag> own;      ///< what our kernels want where nobody has set another value
  std::vector<GivenFlag> given;    ///< later ones win
  bool deterministic = false;      ///< results must not depend on the run or the devices
  std::vector<std::string> allow;  ///< ids of rules whose errors the user lets pass
  Probe probe;  ///< asked about names and versions that the table does not have; may be empty
};

/// One of the values that a flag was given; the last one counts.
struct Layer {
  std::string value;  ///< canonical
  std::string origin;
  std::string word;        ///< as it stands in an environment variable
  bool is_option = false;  ///< handed to the compiler with each program
};

/// A flag with all its values, lowest layer (the plugin's default) first.
struct Setting {
  std::vector<Layer> layers;
  const Layer& top() const { return layers.back(); }
  bool is_given() const { return top().origin != kDefault; }
  static constexpr std::string_view kDefault = "default";
};

/// The flags that a program is compiled with, and what there is to say about them.
struct Effective {
  Platform platform;
  bool deterministic = false;
  std::map<std::string, Setting> settings;  ///< by name, defaults included
  std::vector<Finding> findings;            ///< errors first

  /// The value, or empty where the plugin has no such flag.
  std::string value(std::string_view name) const;
  /// For each program's options: what profile, configuration and command line set, and what our
  /// kernels want.
  std::map<std::string, Value> options() const;
  /// Errors that were not allowed.
  std::vector<Finding> errors() const;
  /// Ids of errors that were, each once.
  std::vector<std::string> allowed() const;
};

/// Merges the layers and applies every rule. Throws nothing for what the user set wrongly: that is
/// a finding.
Effective resolve(const Request& request);

/// Everything about a run's flags, as its folder keeps it.
io::Json to_json(const Effective& effective);

/// The platform and what was given, of the same.
io::Json given_json(const Effective& effective);

/// `NAME=VALUE  # origin` a line; without `all` only what was given.
std::string to_text(const Effective& effective, bool all);

/// One or two lines about a finding, for people.
std::string to_text(const Finding& finding);

}  // namespace kinema::flags
