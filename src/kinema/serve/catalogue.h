#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/serve/request.h"

namespace kinema::serve {

/// A key that clients may set, as a form needs it.
struct Key {
  std::string key;
  std::string group;
  std::string help;
  std::string type;  // "bool", "int", "float", "text", "list" or "map"
  io::Json default_value;
  std::optional<double> min;
  std::optional<double> max;
  int64_t multiple_of = 1;
  std::vector<std::string> one_of;  // empty: any value
  bool prose = false;
  std::string with;  // `KEY` or `KEY=VALUE` without which it has no effect; empty: none
};
io::Json to_json(const Key& key);

/// A model that can be asked.
struct Model {
  struct Size {
    int64_t width = 0;
    int64_t height = 0;
    int64_t frames = 1;
  };
  std::string name;
  std::string family;
  bool is_video = false;
  std::string what;                        // one line about it
  int64_t bytes = 0;                       // of its weights; 0: unknown
  io::Json defaults = io::Json::object();  // KEY: value, those of its configuration
  std::vector<std::string> inputs;         // `image`, `last_image`, `mask`, ...
  std::vector<Size> sizes;                 // the usual ones, best first
  int64_t multiple_of = 1;                 // of width and height
  int64_t frames_step = 4;                 // frames are 1 + k * frames_step
  std::vector<std::string> arguments;      // of `kinema generate`: the model, and its keys
};
io::Json to_json(const Model& model, const std::string& loaded);

struct Lora {
  std::string name;
  std::string family;
  std::string what;
  int64_t bytes = 0;
  bool switches = false;  // another weight does not load the model again
  std::filesystem::path path;
};
io::Json to_json(const Lora& lora);

/// Settings that a picture or a file contains.
struct FoundSettings {
  MakeRequest request;
  std::vector<std::string> left_out;  // a sentence for each that was left out
};

/// A configuration that a training run can start from.
struct Base {
  std::string name;
  std::string help;  // one line
};
/// A training run as a client asks for it.
struct RunRequest {
  std::string base;                        // a name of the listing
  std::string dataset;                     // empty: that of the configuration
  io::Json settings = io::Json::object();  // keys, which win over `yaml`
  std::string yaml;                        // keys as in a configuration file
};
struct CheckedRun {
  std::string config;  // YAML
  std::vector<std::string> notices;
};

/// A kind of device that plans are made for.
struct PlanDevice {
  std::string name;  // `h100`, `v6e:2x2`
  std::string what;  // `NVIDIA H100`
  int64_t bytes = 0;
  bool has_compiler = false;  // false: it must be installed first
};

/// A file or folder of weights.
struct DiskFile {
  std::string name;
  std::filesystem::path folder;
  std::string kind;  // `model`, `lora`, `text encoder`, `autoencoder`, `embedding` or `other`
  std::string what;
  int64_t bytes = 0;
  double changed = 0;   // Unix seconds
  std::string problem;  // why nothing can use it; empty: something can
};
io::Json to_json(const DiskFile& file);

/// What a server knows of models, keys and files. Implementations may be called from several
/// threads.
class Catalogue {
 public:
  virtual ~Catalogue() = default;
  virtual std::vector<Model> models() = 0;
  virtual std::vector<Lora> loras() = 0;
  /// Looks at the folders again.
  virtual void refresh() = 0;
  /// Keys that clients may set and that have an effect with this model.
  virtual std::vector<Key> keys(const std::string& model) = 0;
  /// Throws an http::Refusal of status 422 that names the key, for a key that clients may not set,
  /// a value out of range and values that contradict each other. Returns log lines for the user.
  virtual std::vector<std::string> check(const MakeRequest& request) = 0;
  /// Throws an Error if the file contains no settings.
  virtual FoundSettings read_settings(const std::filesystem::path& file) = 0;

  virtual std::vector<Base> bases() = 0;
  /// Keys of training that clients may set.
  virtual std::vector<Key> training_keys(const std::string& base) = 0;
  /// Throws an http::Refusal of status 404 for an unknown base, 422 for a key that clients may not
  /// set or a value out of range.
  virtual CheckedRun check_run(const RunRequest& request) = 0;

  virtual std::vector<PlanDevice> devices() = 0;
  /// Throws an http::Refusal of status 422 for a device that no plan can be made for.
  virtual void check_device(const std::string& device) = 0;
  /// The configuration (YAML) of a checked request, for a plan.
  virtual std::string plan_config(const MakeRequest& request) = 0;
  /// The files in the folders of models and LoRAs.
  virtual std::vector<DiskFile> disk() = 0;
  /// Adds a model that was downloaded. Throws an Error if it cannot be used.
  virtual void add_model(const std::string& source) = 0;

  /// The model of this name; of an empty one, the first. Throws an http::Refusal of status 404.
  Model model(const std::string& name);
};

}  // namespace kinema::serve
