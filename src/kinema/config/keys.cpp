#include "kinema/config/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kinema/config/choices.h"
#include "kinema/config/other_names.h"
#include "kinema/config/scalar.h"
#include "kinema/core/edit_distance.h"
#include "kinema/io/json.h"

namespace kinema::config {
namespace {

constexpr std::string_view kDead = "MaxDiffusion does not read it for Wan either";
constexpr std::string_view kControl =
    "stands in most YAMLs of MaxDiffusion; here controlnet and control_image are used";
constexpr std::string_view kScheduler = "set in the model's scheduler_config.json";
constexpr std::string_view kEncoders = "text encoders are those of the model's folder";
constexpr std::string_view kJax = "belongs to JAX or PyTorch";

constexpr IgnoredKey kIgnored[] = {
    {"aot_cache_dir", "executable_cache is the cache of compiled programs"},
    {"base_shift", kScheduler},
    {"clip_model_name_or_path", kEncoders},
    {"compile_text_encoder", kJax},
    {"controlnet_conditioning_scale", kControl},
    {"controlnet_from_pt", kControl},
    {"controlnet_image", kControl},
    {"controlnet_model_name_or_path", kControl},
    {"converted_weights_dir", "diffusers folders need no conversion"},
    {"dataset_config_name", kDead},
    {"enable_jax_named_scopes", "programs always have the names of model layers"},
    {"enable_ml_diagnostics", "belongs to a Google Cloud service"},
    {"enable_mllog", kDead},
    {"enable_ondemand_xprof", "belongs to a Google Cloud service"},
    {"flux_name", "the model's files identify it"},
    {"from_pt", kDead},
    {"hf_access_token", "a token in a file may be read by others: set HF_TOKEN"},
    {"jax_cache_dir", "executable_cache is the cache of compiled programs"},
    {"jit_initializers", kDead},
    {"lightning_from_pt", kDead},
    {"max_shift", kScheduler},
    {"norm_num_groups", "set in the model's config.json"},
    {"offload_encoders", "text_encoder_memory sets the placement of the text encoder"},
    {"output_file", "video_folder sets the folder of what is made"},
    {"pretrained_orbax_dir", "checkpoints are diffusers folders"},
    {"profiler", "enable_profiler records a profile"},
    {"profiler_gcs_path", "belongs to a Google Cloud service"},
    {"quantization_calibration_method", kDead},
    {"quantization_local_shard_count", kDead},
    {"skip_jax_distributed_system", kJax},
    {"t5xxl_model_name_or_path", kEncoders},
    {"time_shift", kScheduler},
    {"tokenize_captions_num_proc", kDead},
    {"transform_images_num_proc", kDead},
    {"unet_checkpoint", "wan_transformer_pretrained_model_name_or_path names another UNet"},
};

// The name of a member's type and its value as YAML, for each type.
std::string_view type_name(const bool&) { return "true or false"; }
std::string_view type_name(const int64_t&) { return "an integer"; }
std::string_view type_name(const double&) { return "a number"; }
std::string_view type_name(const std::string&) { return "text"; }
std::string_view type_name(const std::vector<std::string>&) { return "a list of words"; }
std::string_view type_name(const std::vector<int64_t>&) { return "a list of integers"; }
std::string_view type_name(const std::vector<double>&) { return "a list of numbers"; }
std::string_view type_name(const Tree&) { return "any"; }
template <Choice T>
std::string_view type_name(const T& /*value*/) {
  return "text";
}

std::string to_text(bool value) { return value ? "true" : "false"; }
std::string to_text(int64_t value) { return fmt::format("{}", value); }
std::string to_text(double value) { return fmt::format("{}", value); }
// A JSON string is a double-quoted YAML string.
std::string to_text(const std::string& value) { return io::Json(value).dump(-1); }
std::string to_text(const Tree& value) { return value.json; }
template <Choice T>
std::string to_text(T value) {
  return to_text(std::string(word_of(value)));
}
template <typename Item>
std::string to_text(const std::vector<Item>& items) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) {
    out += (i == 0 ? "" : ", ") + to_text(items[i]);
  }
  return out + "]";
}

template <typename Group>
void append(std::vector<KeyValue>& out, std::string_view group, const Group& values) {
  Group::fields(
      values, [&](std::string_view key, const auto& value, OnResume on_resume, const Field& field) {
        out.push_back(
            {key, group, type_name(value_of(value)), to_text(value_of(value)), on_resume, field});
      });
}

// No key is longer: the rest cannot match, and would be slow to compare.
constexpr size_t kLongest = 50;

constexpr size_t kShortestPrefix = 4;
constexpr size_t kMostShown = 5;

std::string number(double value) {
  if (std::trunc(value) == value && std::abs(value) < 1e15) {
    return fmt::format("{}", static_cast<int64_t>(value));
  }
  return fmt::format("{}", value);
}

/// The keys that start with `word`, in backticks; none for a short word.
std::vector<std::string> keys_with_prefix(std::string_view word) {
  std::vector<std::string> out;
  const Config config;
  Config::fields(config, [&](std::string_view known, const auto&, OnResume, const Field&) {
    if (word.size() >= kShortestPrefix && known.starts_with(word)) {
      out.push_back(fmt::format("`{}`", known));
    }
  });
  return out;
}

}  // namespace

std::vector<KeyValue> describe(const Config& config) {
  std::vector<KeyValue> out;
  append(out, "run", config.run);
  append(out, "runtime", config.runtime);
  append(out, "model", config.model);
  append(out, "optimizer", config.optimizer);
  append(out, "data", config.data);
  append(out, "generate", config.generate);
  append(out, "parallel", config.parallel);
  append(out, "serve", config.serve);
  return out;
}

std::span<const IgnoredKey> ignored_keys() { return kIgnored; }

bool is_ignored(std::string_view key) {
  return std::ranges::any_of(kIgnored, [&](const IgnoredKey& each) { return each.key == key; });
}

std::string nearest_key(std::string_view key) {
  if (const OtherName* other = find_other_name(key); other != nullptr && !other->key.empty()) {
    return std::string(other->key);
  }
  key = key.substr(0, kLongest);
  std::string_view best = "base";
  int least = edit_distance(key, best);
  const auto consider = [&](std::string_view known) {
    const auto lengths = static_cast<int>(known.size()) - static_cast<int>(key.size());
    if (std::abs(lengths) >= least) {
      return;  // the distance is at least as large
    }
    const int distance = edit_distance(key, known);
    if (distance < least) {
      least = distance;
      best = known;
    }
  };
  const Config config;
  Config::fields(config, [&](std::string_view known, const auto&, OnResume, const Field&) {
    consider(known);
  });
  for (const IgnoredKey& each : kIgnored) {
    consider(each.key);
  }
  return std::string(best);
}

std::string unknown_key_hint(std::string_view key) {
  if (const OtherName* other = find_other_name(key)) {
    if (other->key.empty()) {
      return fmt::format("that is not built: {}", other->note);
    }
    return fmt::format("the nearest is `{}`{}{}", other->key, other->note.empty() ? "" : ", ",
                       other->note);
  }
  const std::string nearest = nearest_key(key);
  key = key.substr(0, kLongest);
  if (is_near(key, nearest)) {
    return fmt::format("the nearest is `{}`", nearest);
  }
  const std::vector<std::string> longer = keys_with_prefix(key);
  return longer.empty() || longer.size() > kMostShown
             ? "`kinema config` prints all there are"
             : fmt::format("it is the beginning of {}", fmt::join(longer, ", "));
}

std::string expectation(std::string_view type, const Field& field) {
  if (!field.one_of.empty()) {
    std::string list;
    for (const std::string_view word : words(field.one_of)) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", word.empty() ? "''" : word);
    }
    return (type == "text" ? "one of " : "a list of ") + list;
  }
  std::string out(type);
  if (field.items > 0 && out.starts_with("a list of ")) {
    out.insert(std::string_view("a list of ").size(), fmt::format("{} ", field.items));
  } else if (field.min_items > 0) {
    out += fmt::format(", {} or more", field.min_items);
    out += std::isfinite(field.above) || std::isfinite(field.min) ? "," : "";
  }
  if (std::isfinite(field.above)) {
    out += fmt::format(" above {}", number(field.above));
  }
  if (std::isfinite(field.min) && std::isfinite(field.max)) {
    out += fmt::format(" from {} to {}", number(field.min), number(field.max));
  } else if (std::isfinite(field.min)) {
    out += fmt::format(", at least {}", number(field.min));
  } else if (std::isfinite(field.max)) {
    out += fmt::format(", at most {}", number(field.max));
  }
  if (field.not_zero) {
    out += ", not 0";
  }
  if (field.multiple_of == 2) {
    out += ", even";
  } else if (field.multiple_of > 1) {
    out += fmt::format(", a multiple of {}", field.multiple_of);
  }
  return out;
}

}  // namespace kinema::config
