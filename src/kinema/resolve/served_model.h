#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/config/keys.h"

namespace kinema::resolve {

/// What a server tells its clients of the model of a configuration, without opening its weights.
struct ServedModel {
  std::string family;  // the class of its network, as in its config.json
  bool makes_images = false;
  std::vector<std::string> inputs;     // of `image`, `last_image`, `mask`, `control_image`, `video`
  int64_t multiple_of = 1;             // of height and width
  int64_t frames_step = 1;             // frames are 1 + k * frames_step
  std::vector<config::KeyValue> keys;  // that a client may set and that have an effect
};

/// Throws an Error if the model's sizes are not known here.
ServedModel served_model(const config::Loaded& loaded);

/// The configuration with the `key`s of a client. Throws an Error for a key that clients may not
/// set, which are all but those with config::Share::YES, and those that the server sets itself (the
/// number of pictures, which files are written). The caller says which key an Error is about.
config::Loaded with_client_key(config::Loaded loaded, const std::string& key,
                               const std::string& value);
/// The origin of a training key that a client set.
inline constexpr std::string_view kClient = "client";

/// True for keys of training that a server's clients may set: numbers, switches and words of a list
/// in the groups of the optimizer, the model, the data, sampling and the run, and keys that may be
/// shared; never paths, plugins or flags.
bool is_training_key_for_clients(const config::KeyValue& key);
/// with_client_key for those.
config::Loaded with_training_key(config::Loaded loaded, const std::string& key,
                                 const std::string& value);

/// Throws an Error with the nearest valid sizes if the model cannot make these. Returns log lines,
/// for example that 80 frames become 81.
std::vector<std::string> check_served_request(const config::Loaded& loaded);

/// The key of an input by its name in ServedModel: `last_image_url` of `last_image`. Throws an
/// Error for another name.
std::string input_key(const std::string& input);

}  // namespace kinema::resolve
