#include "kinema/resolve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/model_source/network.h"
#include "kinema/networks/named_input.h"
#include "kinema/resolve/encoders.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/missing_features.h"
#include "kinema/sample/sizes.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

bool is_for_clients(const config::KeyValue& key) {
  return key.field.share == config::Share::YES && !key.field.by_server;
}

bool has_two_experts(const config::Config& config) {
  std::error_code ignored;
  return fs::exists(fs::path(config.model.pretrained_model_name_or_path) / "transformer_2",
                    ignored);
}

/// The given pictures and videos that a request may have, by what the network's inputs are made of.
std::vector<std::string> inputs_of(const networks::Sizes& sizes) {
  using networks::MadeOf;
  for (const networks::NamedInput& input : sizes.named) {
    switch (input.made_of) {
      case MadeOf::FIRST_AND_LAST:
      case MadeOf::CONTROL_AND_START:
      case MadeOf::CONTROL_AND_MASKED:
      case MadeOf::START:
        return sizes.takes_last_image ? std::vector<std::string>{"image", "last_image"}
                                      : std::vector<std::string>{"image"};
      case MadeOf::CONTROL_IMAGE:
        return {"control_image"};
      case MadeOf::FOLLOWED_IMAGE:
      case MadeOf::FOLLOWED_AND_KEPT:
        return {"control_image", "image", "mask"};
      case MadeOf::CONTROL_VIDEO:
        return {"control_video", "control_mask"};
      case MadeOf::ANIMATED:
        return {"image", "pose_video", "face_video", "background_video", "mask_video"};
      case MadeOf::POSE_VIDEO:
      case MadeOf::FACE_VIDEO:
      case MadeOf::CONTROL_PICTURES:
      case MadeOf::FIRST_IMAGE:
      case MadeOf::MASK_AND_KEPT:
      case MadeOf::KEPT_AND_MASK:
      case MadeOf::REFERENCE_IMAGE:
      case MadeOf::REFERENCE_FRAME:
      case MadeOf::CAMERA_RAYS:
        break;
    }
  }
  return sizes.makes_images ? std::vector<std::string>{"image", "mask"}
                            : std::vector<std::string>{"video"};
}

}  // namespace

ServedModel served_model(const config::Loaded& loaded) {
  const networks::Network network = model_source::planned_network(loaded);
  const networks::Sizes& sizes = network.sizes();
  const encoders::LatentLayout layout = latent_layout(loaded.config, sizes);
  ServedModel out{.makes_images = sizes.makes_images, .inputs = inputs_of(sizes)};
  const io::Json config = network->config();
  if (const io::Json* name = config.find("_class_name")) {
    out.family = name->as_string();
  }
  out.multiple_of = layout.spatial * std::lcm(sizes.patch_size[1], sizes.patch_size[2]);
  out.frames_step = sizes.makes_images ? 1 : layout.temporal;
  const config::MissingFeatures lacks =
      missing_features(network, has_two_experts(loaded.config), loaded.config);
  for (const config::KeyValue& key : config::describe(loaded.config)) {
    const bool has_effect = std::ranges::none_of(
        key.field.needs, [&](config::Needs need) { return lacks.contains(need); });
    if (key.group == "generate" && is_for_clients(key) && has_effect) {
      out.keys.push_back(key);
    }
  }
  return out;
}

namespace {

config::Loaded with_key(config::Loaded loaded, const std::string& key, const std::string& value,
                        bool (*is_allowed)(const config::KeyValue&), std::string_view origin) {
  const std::vector<config::KeyValue> known = config::describe(loaded.config);
  const auto found = std::ranges::find(known, key, &config::KeyValue::key);
  check(found != known.end(), "[serve] there is no key `{}`; {}", key,
        config::unknown_key_hint(key));
  check(is_allowed(*found), "[serve] the key `{}` is the server's: clients may not set it", key);
  config::set(loaded, key, value, std::string(origin));
  return loaded;
}

}  // namespace

config::Loaded with_client_key(config::Loaded loaded, const std::string& key,
                               const std::string& value) {
  // As on the command line, where a prompt overrides prompt_file.
  return with_key(std::move(loaded), key, value, is_for_clients, config::kCommandLine);
}

bool is_training_key_for_clients(const config::KeyValue& key) {
  static constexpr std::array<std::string_view, 5> kGroups{"run", "model", "optimizer", "data",
                                                           "generate"};
  const bool has_group = std::ranges::find(kGroups, key.group) != kGroups.end();
  const bool is_path_or_text =
      (key.type == "text" || key.type == "any" || key.type == "a list of words") &&
      key.field.one_of.empty();
  return has_group && key.field.of == config::Of::RUN && key.field.later.empty() &&
         (key.field.share == config::Share::YES || !is_path_or_text) && key.key != "hardware" &&
         key.key != "cpu_isa";
}

config::Loaded with_training_key(config::Loaded loaded, const std::string& key,
                                 const std::string& value) {
  return with_key(std::move(loaded), key, value, is_training_key_for_clients, kClient);
}

std::vector<std::string> check_served_request(const config::Loaded& loaded) {
  std::vector<std::string> out = config::notices(loaded, "generate");
  const networks::Network network = model_source::planned_network(loaded);
  const networks::Sizes& sizes = network.sizes();
  const VideoFormat format = video_format(loaded.config);
  const int64_t frames = sizes.makes_images ? 1 : format.num_frames;
  const sample::VideoSizes made = sample::video_sizes(
      frames, format.height, format.width, latent_layout(loaded.config, sizes), sizes.patch_size);
  if (made.num_frames != frames && !sizes.makes_images) {
    out.push_back(fmt::format("num_frames {} becomes {}", frames, made.num_frames));
  }
  return out;
}

std::string input_key(const std::string& input) {
  static constexpr std::array<std::string_view, 10> kSame{
      "image", "mask",       "control_image", "control_video",    "control_mask",
      "video", "pose_video", "face_video",    "background_video", "mask_video"};
  if (input == "last_image") {
    return "last_image_url";
  }
  check(std::ranges::find(kSame, input) != kSame.end(), "[serve] there is no input `{}`", input);
  return input;
}

}  // namespace kinema::resolve
