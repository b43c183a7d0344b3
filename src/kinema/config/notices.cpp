#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "kinema/config/config.h"
#include "kinema/config/keys.h"
#include "kinema/config/scalar.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::config {

bool is_switched_on(std::string_view value, std::string_view with) {
  if (const size_t equals = with.find('='); equals != std::string_view::npos) {
    const std::string is = io::Json::parse(value, with).as_string();
    for (size_t i = 0;; ++i) {
      const std::string_view word = word_at(with.substr(equals + 1), i);
      if (word == is || word.empty()) {
        return !word.empty();
      }
    }
  }
  constexpr std::array<std::string_view, 7> kOff = {"false", "0", "-1", "\"\"", "[]", "{}", "null"};
  return std::ranges::count(kOff, value) == 0;
}

namespace {

std::string origin_of(const Loaded& loaded, std::string_view key) {
  const auto found = loaded.origin.find(std::string(key));
  return found == loaded.origin.end() ? "default" : found->second;
}

bool is_refused(const Field& field, std::string_view command) {
  return field.refused_by.find(command) != std::string_view::npos;
}

std::string join(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// True if the condition of other keys holds: a key that is not 0, -1 or empty, or KEY=VALUE.
bool is_on(const std::vector<KeyValue>& values, std::string_view what) {
  const auto found = std::ranges::find(values, what.substr(0, what.find('=')), &KeyValue::key);
  return found != values.end() && is_switched_on(found->value, what);
}

/// The reason why a dataset key has no effect; empty if it has an effect. With several datasets,
/// each may have settings of its own, for which the run's keys are the defaults: always empty.
std::string no_effect_on_data(const DataConfig& data, std::string_view key) {
  const bool is_one = !data.train_data_dir.ends_with(".toml") && data.datasets.json == "[]";
  if (!is_one) {
    return "";
  }
  if (key.starts_with("bucket_") && data.buckets.json != "\"auto\"") {
    return "read by buckets=auto alone";
  }
  if (key == "prior_loss_weight" && data.reg_data_dir.empty()) {
    return "without reg_data_dir";
  }
  const bool has_tags = data.caption_shuffle_tags || data.caption_tag_dropout > 0;
  if (!has_tags && (key == "caption_keep_tags" || key == "caption_keep_separator" ||
                    key == "caption_separator")) {
    return "without caption_shuffle_tags or caption_tag_dropout";
  }
  return "";
}

/// The reason why a key has no effect for `command` with these values; empty if it has one.
std::string no_effect(const std::vector<KeyValue>& values, const KeyValue& each,
                      const Config& config, std::string_view command) {
  const Field& field = each.field;
  if (!field.later.empty()) {
    return "";  // another log line reports it
  }
  if (!field.with.empty() && !is_on(values, field.with)) {
    return field.with.find('=') == std::string_view::npos
               ? fmt::format("without {}", field.with)
               : fmt::format("read by {} alone", field.with);
  }
  for (const std::string_view other : words(field.without)) {
    if (is_on(values, other)) {
      return fmt::format("set with {}", other);
    }
  }
  if (each.key == "lokr_factor" && config.model.adapter_type != AdapterType::LOKR) {
    return "read by adapter_type=lokr alone";
  }
  if (std::string why = no_effect_on_data(config.data, each.key); !why.empty()) {
    return why;
  }
  const bool is_calibration = each.key.ends_with("_quantization_calibration_method");
  const bool is_full = config.model.quantization == "fp8_full";
  if (is_calibration && !is_full) {
    return "read by quantization=fp8_full alone";
  }
  if (each.key == "qwix_use_original_residuals" && (is_full || command == "generate")) {
    return is_full ? "fp8_full multiplies codes" : "nothing is differentiated";
  }
  const DatasetType type = config.data.dataset_type;
  const bool has_records =
      type == DatasetType::TFRECORD || type == DatasetType::TF || type == DatasetType::GRAIN;
  constexpr std::array<std::string_view, 4> kSizes = {"height", "width", "num_frames",
                                                      "resolution"};
  const bool is_size = std::ranges::count(kSizes, each.key) > 0;
  // Videos during training use the keys of `generate`.
  const RunConfig& run = config.run;
  const bool videos = run.enable_ssim || (run.enable_generate_video_for_eval && run.eval_every > 0);
  if (command != "train" || videos) {
    return "";
  }
  return has_records && is_size                                    ? "records have their size"
         : each.group == "generate" && each.on_resume == UNRELATED ? "nothing is generated"
                                                                   : "";
}

/// True for values from files, which may have unused keys because they serve several commands.
bool is_of_file(std::string_view origin) {
  return origin != kCommandLine && !origin.starts_with("KINEMA_");
}

/// The log line about such keys; empty if there are none.
std::vector<std::string> no_effect_line(const std::vector<std::string>& keys) {
  return keys.empty() ? std::vector<std::string>()
                      : std::vector{"these keys have no effect: " + join(keys)};
}

/// Given keys without effect, with the reason: from the command line, the environment and, for keys
/// with Field::without, files.
std::vector<std::string> without_effect(const Loaded& loaded, const std::vector<KeyValue>& values,
                                        const std::vector<KeyValue>& defaults,
                                        std::string_view command) {
  std::vector<std::string> out;
  for (size_t i = 0; i < values.size(); ++i) {
    const KeyValue& each = values[i];
    const std::string origin = origin_of(loaded, each.key);
    const bool of_file = is_of_file(origin);
    if (origin == "default" || (of_file && each.field.without.empty()) ||
        (of_file && each.value == defaults[i].value)) {
      continue;
    }
    const std::string why = no_effect(values, each, loaded.config, command);
    if (!why.empty()) {
      out.push_back(fmt::format("{} ({})", each.key, why));
    }
  }
  return out;
}

/// Paths with one slash after `gs:` or `s3:`, which are local folders by mistake, as in
/// MaxDiffusion's README.
std::vector<std::string> with_one_slash(const std::vector<KeyValue>& values) {
  std::vector<std::string> out;
  for (const KeyValue& each : values) {
    for (const std::string_view scheme : {"\"gs:/", "\"s3:/"}) {
      if (each.value.starts_with(scheme) && !each.value.substr(scheme.size()).starts_with('/')) {
        out.push_back(
            fmt::format("{} {} is a local folder: with a second slash, {}//, it is a bucket",
                        each.key, each.value, scheme.substr(1, 3)));
      }
    }
  }
  return out;
}

/// Both select the frames of a clip.
void check_frames(const Loaded& loaded) {
  const DataConfig& data = loaded.config.data;
  check(data.target_fps == 0 || data.frame_stride == 1,
        "[config] target_fps {} ({}) selects frames by time, frame_stride {} ({}) by number\n"
        "  set target_fps=0 or frame_stride=1",
        data.target_fps, origin_of(loaded, "target_fps"), data.frame_stride,
        origin_of(loaded, "frame_stride"));
}

void check_train(const Loaded& loaded) {
  const Config& config = loaded.config;
  check_frames(loaded);
  run_folder(config);
  check(!config.run.output_dir.empty(), "[config] output_dir is empty: give the folder for runs");
  const RunConfig& run = config.run;
  check(run.eval_split == 0 || run.eval_data_dir.empty(),
        "[config] eval_split {:g} ({}) holds out training samples for evaluation, eval_data_dir "
        "({}) has other samples: set only one of them",
        run.eval_split, origin_of(loaded, "eval_split"), origin_of(loaded, "eval_data_dir"));
  check(run.eval_split == 0 || config.data.dataset_type != DatasetType::SYNTHETIC,
        "[config] eval_split {:g} ({}) is a fraction of a data set, but dataset_type is synthetic",
        run.eval_split, origin_of(loaded, "eval_split"));
  const OptimizerConfig& o = config.optimizer;
  check(o.lr_decay_fraction != 0 || o.lr_schedule == LrSchedule::CONSTANT,
        "[config] lr_schedule {} ({}) has no decay steps: lr_decay_fraction is 0 ({})\n"
        "  lr_decay_fraction=-1 uses the default of lr_schedule",
        word_of(o.lr_schedule), origin_of(loaded, "lr_schedule"),
        origin_of(loaded, "lr_decay_fraction"));
  constexpr double kRounding = 1e-9;  // for shares written as decimals
  const double decay = decay_fraction(o);
  check(o.warmup_steps_fraction + decay <= 1 + kRounding,
        "[config] warmup_steps_fraction {:g} ({}) and a decay over {:g} of the schedule ({}) "
        "overlap: the rate would decay before it reached learning_rate\n"
        "  warmup_steps_fraction={:g}, or lr_decay_fraction={:g}",
        o.warmup_steps_fraction, origin_of(loaded, "warmup_steps_fraction"), decay,
        origin_of(loaded, o.lr_decay_fraction < 0 ? "lr_schedule" : "lr_decay_fraction"), 1 - decay,
        1 - o.warmup_steps_fraction);
  const ModelType type = config.model.model_type;
  check(
      type != ModelType::ANIMATE,
      "[config] model_type `{}` ({}) is sampled, not trained: T2V, I2V, TI2V and VACE are trained",
      word_of(type), origin_of(loaded, "model_type"));
  check(config.model.weights_storage == WeightsStorage::FLOATS || config.model.enable_lora,
        "[config] weights_storage is `{}` ({}), but training changes the weights: codes are for "
        "generate, and for the frozen weights under an adapter\n"
        "  set weights_storage=weights_dtype, or enable_lora=true",
        word_of(config.model.weights_storage), origin_of(loaded, "weights_storage"));
  check(config.model.weights_memory == WeightsMemory::DEVICE || config.model.enable_lora,
        "[config] weights_memory is `{}` ({}), but training changes all weights: only frozen "
        "weights under an adapter can be offloaded\n"
        "  set weights_memory=device, or enable_lora=true; optimizer_memory=host offloads the "
        "moments of a whole model",
        word_of(config.model.weights_memory), origin_of(loaded, "weights_memory"));
  check(!config.model.enable_lora || !config.model.pretrained_model_name_or_path.empty() ||
            !config.model.wan_transformer_pretrained_model_name_or_path.empty(),
        "[config] enable_lora ({}) trains an adapter of a model, but none is named\n"
        "  pretrained_model_name_or_path=FOLDER, or a run's folder",
        origin_of(loaded, "enable_lora"));
}

void check_prepare(const Loaded& loaded) {
  const DataConfig& data = loaded.config.data;
  check_frames(loaded);
  check(data.dataset_type == DatasetType::HF
            ? !data.train_data_dir.empty() || !data.dataset_name.empty()
            : !data.train_data_dir.empty() || data.datasets != DataConfig{}.datasets,
        "[config] train_data_dir is empty: give the folder of clips or pictures");
  check(!data.tfrecords_dir.empty(),
        "[config] tfrecords_dir is empty: give the folder for the records");
  check(data.eval_tfrecords_dir.empty() || !data.enable_eval_timesteps,
        "[config] eval_tfrecords_dir ({}) writes evaluation records in addition to the others, "
        "enable_eval_timesteps ({}) writes only them: set only one of them",
        origin_of(loaded, "eval_tfrecords_dir"), origin_of(loaded, "enable_eval_timesteps"));
  if (data.enable_eval_timesteps || !data.eval_tfrecords_dir.empty()) {
    check(data.num_eval_samples > 0 && !data.timesteps_list.empty() &&
              data.num_eval_samples % static_cast<int64_t>(data.timesteps_list.size()) == 0,
          "[config] num_eval_samples {} ({}) must be a multiple of the {} of timesteps_list",
          data.num_eval_samples, origin_of(loaded, "num_eval_samples"), data.timesteps_list.size());
  }
}

}  // namespace

std::vector<std::string> notices(const Loaded& loaded, std::string_view command) {
  if (command == "train") {
    check_train(loaded);
  }
  if (command == "prepare") {
    check_prepare(loaded);
  }
  std::vector<std::string> waiting;
  const std::vector<KeyValue> defaults = describe(Config{});
  const std::vector<KeyValue> values = describe(loaded.config);
  for (size_t i = 0; i < values.size(); ++i) {
    const KeyValue& each = values[i];
    // The mesh is for training and sampling; encoding samples for training uses one device.
    const bool splits_vae = each.key == "replicate_vae" || each.key == "vae_spatial" ||
                            each.key == "vae_logical_axis_rules";
    const bool splits = each.group == "parallel" || splits_vae;
    const bool one_device = command == "prepare" || (command == "train" && splits_vae);
    const std::string_view later = each.field.later.empty() && splits && one_device
                                       ? "sharding of the encoders of this command"
                                       : each.field.later;
    if (later.empty() || each.value == defaults[i].value || !loaded.is_set(std::string(each.key))) {
      continue;
    }
    check(!is_refused(each.field, command),
          "[config] {} is {} ({}), but {} is not built yet and would change the result", each.key,
          each.value, origin_of(loaded, each.key), later);
    waiting.push_back(fmt::format("{} ({})", each.key, later));
  }
  std::vector<std::string> out = with_one_slash(values);
  // In a file the key is for the training.
  if (command == "generate" && origin_of(loaded, "enable_profiler") == kCommandLine) {
    out.push_back("enable_profiler records steps of train: generate says what each part took");
  }
  if (command != "prepare") {
    const std::vector<std::string> line =
        no_effect_line(without_effect(loaded, values, defaults, command));
    out.insert(out.end(), line.begin(), line.end());
  }
  const RunConfig& run = loaded.config.run;
  if (command == "train" && run.eval_split > 0 && run.eval_every <= 0) {
    out.push_back(fmt::format(
        "eval_split {:g} ({}) holds out samples, but eval_every is {}: the run does not evaluate "
        "them; `kinema evaluate` does so afterwards, eval_split=0 trains on all",
        run.eval_split, origin_of(loaded, "eval_split"), run.eval_every));
  }
  if (!loaded.ignored.empty()) {
    out.push_back("these keys have no meaning in kinema: " + join(loaded.ignored));
  }
  if (!loaded.config.data.load_tfrecord_cached) {
    out.push_back(
        "load_tfrecord_cached=false has no meaning: records hold latents and text states; videos "
        "are "
        "read by dataset_type=videos");
  }
  if (command == "prepare") {
    for (const auto& [key, set] : {std::pair{"random_start", loaded.config.data.random_start},
                                   std::pair{"random_flip", loaded.config.data.random_flip},
                                   std::pair{"color_aug", loaded.config.data.color_aug},
                                   std::pair{"center_crop", !loaded.config.data.center_crop}}) {
      if (set) {
        out.push_back(
            fmt::format("{} ({}) has no meaning for records: they hold the middle of "
                        "each clip, as it is",
                        key, origin_of(loaded, key)));
      }
    }
  }
  if (!waiting.empty()) {
    out.push_back("these keys have no effect yet: " + join(waiting));
  }
  return out;
}

std::vector<std::string> model_notices(const Loaded& loaded, std::string_view command,
                                       const MissingFeatures& lacks) {
  std::vector<std::string> idle;
  const std::vector<KeyValue> values = describe(loaded.config);
  for (const KeyValue& each : values) {
    if (!loaded.is_set(std::string(each.key)) || is_of_file(origin_of(loaded, each.key)) ||
        !no_effect(values, each, loaded.config, command).empty()) {
      continue;
    }
    const auto* const need =
        std::ranges::find_if(each.field.needs, [&](Needs one) { return lacks.contains(one); });
    if (need != each.field.needs.end()) {
      idle.push_back(fmt::format("{} ({})", each.key, lacks.at(*need)));
    }
  }
  return no_effect_line(idle);
}

}  // namespace kinema::config
