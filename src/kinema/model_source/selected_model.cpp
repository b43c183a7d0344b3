#include "kinema/model_source/selected_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/config/keys.h"
#include "kinema/config/scalar.h"
#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/tensor_file.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/learned_rows.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;

/// True if the weights of a pipeline's part exist.
bool is_here(const fs::path& part) {
  std::error_code ignored;
  return !part.empty() && fs::is_directory(part, ignored);
}

/// The file from which a checkpoint's adapter started.
std::optional<config::LoraChoice> start_of(const training::TrainState& state) {
  config::ModelConfig model;
  model.enable_lora = true;
  const auto found = state.settings.find("lora_config");
  if (found != state.settings.end()) {
    model.lora_config.json = found->second;
  }
  const std::vector<config::LoraChoice> choices = config::lora_choices(model);
  return choices.empty() ? std::nullopt : std::optional(choices.front());
}

/// The boundary ratio of both experts of a checkpoint.
std::optional<double> boundary_of(const training::TrainState& state) {
  const std::string text = state.setting("boundary_ratio");
  double ratio = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
  const bool of_both = state.setting("train_expert") == config::word_of(config::TrainExpert::BOTH);
  return of_both && error == std::errc() ? std::optional(ratio) : std::nullopt;
}

/// The configuration with the base model of the run's adapter, if it names none; a run from scratch
/// has no base model.
config::Config with_base(config::Config config, const training::TrainState& state) {
  config::ModelConfig& model = config.model;
  std::string& pipeline = model.pretrained_model_name_or_path;
  std::string& transformer = model.wan_transformer_pretrained_model_name_or_path;
  if (pipeline.empty() && transformer.empty()) {
    pipeline = state.setting("pretrained_model_name_or_path");
    transformer = state.setting("wan_transformer_pretrained_model_name_or_path");
  }
  return config;
}

/// A run's checkpoint as a pipeline, with EMA weights if it has them.
SelectedModel from_checkpoint(const config::Config& given, const fs::path& run,
                              const fs::path& checkpoint) {
  const training::TrainState state = training::read_train_state(checkpoint);
  const bool adapter = state.weights == training::kAdapter;
  const bool words = state.weights == training::kWords;
  const bool control = state.weights == training::kControl;
  const bool is_whole = !adapter && !words && !control;
  const config::Config config = is_whole ? given : with_base(given, state);
  return model_of_checkpoint(
      config, run,
      {.folder = checkpoint,
       .model_type = config::choice_of<config::ModelType>(state.setting("model_type")),
       .train_expert = config::choice_of<config::TrainExpert>(state.setting("train_expert"))
                           .value_or(config::TrainExpert::NONE),
       .average = fs::is_directory(checkpoint / training::average_part(state.weights)),
       .adapter = adapter,
       .words = words,
       .control = control,
       .adapter_start = adapter ? start_of(state) : std::nullopt,
       .part = is_whole ? state.weights : CheckpointModel().part,
       .boundary_ratio = boundary_of(state)});
}

checkpoints::CheckpointFolder checkpoints_of(const config::Config& config) {
  return checkpoints::CheckpointFolder(config.run.checkpoint_dir.empty()
                                           ? run_folder(config) / "checkpoints"
                                           : fs::path(config.run.checkpoint_dir));
}

/// True for a folder that `train` wrote.
bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.yml", ignored) || fs::exists(folder / "checkpoints", ignored);
}

/// The names of the runs in an output_dir; a name may include a folder: `team/first`.
std::vector<std::string> runs_of(const fs::path& output_dir, int depth = 2) {
  std::vector<std::string> out;
  std::error_code error;
  for (auto each = fs::directory_iterator(output_dir, error);
       !error && each != fs::directory_iterator(); each.increment(error)) {
    std::error_code ignored;
    const std::string name = each->path().filename().string();
    if (is_run(each->path())) {
      out.push_back(name);
    } else if (depth > 1 && each->is_directory(ignored)) {
      for (const std::string& inner : runs_of(each->path(), depth - 1)) {
        out.push_back(name + "/" + inner);
      }
    }
  }
  std::ranges::sort(out);
  return out;
}

/// The transformers that the configuration names; only the first for a pipeline with one. A
/// checkpoint that wan_transformer_pretrained_model_name_or_path names contains its run's expert,
/// or both; the other one is the pipeline's.
std::array<fs::path, 2> named_transformers(const config::Config& config) {
  const fs::path own = config.model.wan_transformer_pretrained_model_name_or_path;
  const fs::path pipeline = config.model.pretrained_model_name_or_path;
  if (own.empty() && !pipeline.empty() &&
      is_here(pipeline / "low_noise_model")) {  // Wan 2.2's original release
    return {pretrained_transformer(config), pipeline / "low_noise_model"};
  }
  const bool is_second = own.filename() == "transformer_2" && is_here(pipeline / "transformer_2");
  const fs::path second = is_second ? own : own / "transformer_2";
  if (own.empty() || !is_here(second)) {
    return {pretrained_transformer(config), fs::path()};
  }
  if (!is_second && is_here(own / "transformer")) {
    return {own / "transformer", second};
  }
  check(is_here(pipeline / "transformer"),
        "[generate] {} is only the low-noise expert, and pretrained_model_name_or_path is not a "
        "pipeline with the other one\n"
        "  give the folder of a pipeline with transformer/ and transformer_2/",
        own.string());
  return {pipeline / "transformer", second};
}

/// The name of a pretrained model, for the folder of its samples: the folder or file of its
/// network, the repository in the hub's cache, or the run and step of a checkpoint.
std::string model_name(const fs::path& transformer) {
  std::error_code ignored;
  fs::path path = fs::absolute(transformer, ignored).lexically_normal();
  if (!path.has_filename()) {
    path = path.parent_path();
  }
  constexpr std::array<std::string_view, 4> kParts{"transformer", "transformer_2", "unet",
                                                   "unet_ema"};
  if (std::ranges::find(kParts, path.filename().string()) != kParts.end()) {
    path = path.parent_path();
  }
  for (const fs::path& each : path) {
    constexpr std::string_view kHub = "models--";
    const std::string part = each.string();
    if (part.starts_with(kHub)) {
      const size_t name = part.rfind("--");
      return part.substr(name + 2);
    }
  }
  if (path.parent_path().filename() == "checkpoints") {
    return path.parent_path().parent_path().filename().string() + "_" + path.filename().string();
  }
  return path.extension() == ".safetensors" || path.extension() == ".gguf" ||
                 io::is_pickle_name(path)
             ? path.stem().string()
             : path.filename().string();
}

SelectedModel pretrained_or_trained(const config::Config& config, const Job& job) {
  if (!config.run.run_name.empty()) {
    const fs::path run = run_folder(config);
    const checkpoints::CheckpointFolder checkpoints = checkpoints_of(config);
    if (const int64_t step = config.generate.generate_checkpoint_step; step >= 0) {
      const fs::path folder = checkpoints.path(step);
      const std::vector<int64_t> there = checkpoints.steps();
      check(std::ranges::count(there, step) > 0,
            "[generate] {} has no checkpoint of step {}; there {}\n"
            "  generate_checkpoint_step=-1 uses the newest",
            checkpoints.path().string(), step,
            there.empty() ? "are none" : fmt::format("are {}", fmt::join(there, ", ")));
      const std::string problem = checkpoints::manifest_problem(folder);
      check(problem.empty(), "[generate] {} cannot be used: {}", folder.string(), problem);
      return from_checkpoint(config, run, folder);
    }
    checkpoints::Found found;
    do {
      found = checkpoints.newest();
      for (const checkpoints::CorruptCheckpoint& each : found.corrupt) {
        job.notice(fmt::format("{} is skipped: {}", each.folder.string(), each.reason));
      }
      try {
        if (found.step) {
          return from_checkpoint(config, run, found.folder);
        }
      } catch (const Error&) {
        if (!was_removed(found.folder)) {
          throw;
        }
      }
    } while (found.step);
    check(found.corrupt.empty(),
          "[run_name] {} contains no valid checkpoint\n  restore one, or use another run_name",
          checkpoints.path().string());
  }
  const auto [transformer, transformer_2] = named_transformers(config);
  check(!transformer.empty(),
        "[generate] no model: give run_name=... of a training run, or "
        "pretrained_model_name_or_path=FOLDER");
  SelectedModel out;
  const std::string& pipeline = config.model.pretrained_model_name_or_path;
  const bool is_pipeline = !pipeline.empty() && fs::path(pipeline).filename() != "transformer";
  if (is_pipeline && fs::is_regular_file(pipeline)) {  // all models, no settings
    out.folder.folder = fs::path(pipeline).parent_path();
    // As in released pipelines with two CLIP text encoders.
    out.folder.force_zeros_for_empty_prompt = has_both_text_encoders(pipeline);
    if (const fs::path beside = adjacent_scheduler_config(pipeline); !beside.empty()) {
      out.folder.schedule = sample::read_scheduler_config(beside);
    }
  } else if (is_pipeline && is_original_repository(pipeline)) {
    out.folder.folder = pipeline;
    const io::Json config_json = model_files::Checkpoint::open(transformer).config();
    const io::Json* type = config_json.is_object() ? config_json.find("model_type") : nullptr;
    out.folder.expand_timesteps =
        type != nullptr && type->is_string() && type->as_string() == "ti2v";
  } else if (!is_pipeline && fs::is_regular_file(transformer)) {  // weights only
    out.folder.folder = transformer.parent_path();
  } else {
    out.folder =
        sample::read_pipeline_folder(is_pipeline ? fs::path(pipeline) : transformer.parent_path());
  }
  out.folder.transformer = transformer;
  if (const fs::path kept = scheduler_config_of_checkpoint(transformer); !kept.empty()) {
    out.folder.schedule = sample::read_scheduler_config(kept);  // the schedule of its training
  }
  if (!transformer_2.empty()) {
    out.folder.transformer_2 = transformer_2;
    out.folder.boundary_ratio =
        out.folder.boundary_ratio.value_or(config.generate.boundary_ratio.value);
  }
  check(out.folder.has_two_experts() || config.model.transformer_module.size() <= 1,
        "[config] transformer_module has {} files, but the model has one transformer",
        config.model.transformer_module.size());
  out.folder.transformer = with_module(config, transformer, 0);
  out.folder.transformer_2 = with_module(config, out.folder.transformer_2, 1);
  out.output = config.run.run_name.empty()
                   ? fs::path(config.run.output_dir) / "samples" / model_name(transformer)
                   : run_folder(config) / "samples" / "pretrained";
  return out;
}

/// The schedule in the checkpoint, else that of the pipeline with which the run started.
std::optional<schedulers::ScheduleConfig> trained_schedule(
    const fs::path& checkpoint, const std::optional<sample::PipelineFolder>& pipeline) {
  const fs::path kept = checkpoint / sample::kSchedulerConfig;
  std::error_code ignored;
  if (fs::exists(kept, ignored)) {
    return sample::read_scheduler_config(kept);
  }
  return pipeline ? pipeline->schedule : std::nullopt;
}

}  // namespace

bool was_removed(const fs::path& checkpoint) {
  return !checkpoint.empty() && !checkpoints::checkpoint_exists(checkpoint);
}

bool has_checkpoint(const config::Config& config) {
  return !config.run.run_name.empty() && !checkpoints_of(config).steps().empty();
}

bool has_adapter(const config::Config& config) {
  if (!has_checkpoint(config)) {
    return false;
  }
  const checkpoints::CheckpointFolder checkpoints = checkpoints_of(config);
  std::error_code ignored;
  return std::ranges::any_of(checkpoints.steps(), [&](int64_t step) {
    const auto holds = [&](const char* part) {
      return fs::is_directory(checkpoints.path(step) / part, ignored);
    };
    return holds(training::kAdapter) || holds(training::kWords) || holds(training::kControl);
  });
}

std::vector<std::string> check_run(const config::Config& config) {
  const std::string& name = config.run.run_name;
  if (name.empty() || has_checkpoint(config)) {
    return {};
  }
  const std::string& own = config.model.wan_transformer_pretrained_model_name_or_path;
  const std::string& pretrained = own.empty() ? config.model.pretrained_model_name_or_path : own;
  const std::string instead =
      is_run(pretrained)
          ? fmt::format("{}/config.yml as the configuration takes that run", pretrained)
          : "`run_name=` without a name takes " + pretrained;
  const std::vector<std::string> runs = runs_of(config.run.output_dir);
  const bool is_other = !is_run(run_folder(config)) && config.run.checkpoint_dir.empty();
  check(is_other && (!pretrained.empty() || !runs.empty()),
        "[run_name] {} contains no checkpoint\n"
        "  train first: kinema train CONFIG run_name={}{}",
        checkpoints_of(config).path().string(), name, pretrained.empty() ? "" : "; " + instead);
  if (runs.empty()) {  // no run that the name could mean
    return {fmt::format(
        "there are no runs in {}: {} is used, and run_name only names the folder of the results",
        config.run.output_dir, pretrained)};
  }
  const std::string& nearest = *std::ranges::min_element(
      runs, {}, [&](const std::string& each) { return edit_distance(name, each); });
  constexpr size_t kShown = 8;
  const bool near = is_near(name, nearest);
  const size_t more = runs.size() - std::min(runs.size(), kShown);
  const std::string there =
      near ? fmt::format("the nearest is `{}`", nearest)
           : fmt::format("the runs there are {}{}",
                         fmt::join(std::span(runs).first(runs.size() - more), ", "),
                         more > 0 ? fmt::format(", and {} more", more) : "");
  fail("[run_name] there is no run `{}` in {}; {}\n  {}", name,
       fs::absolute(config.run.output_dir).lexically_normal().string(), there,
       !pretrained.empty() ? instead
       : near              ? fmt::format("run_name={} takes that one", nearest)
                           : "run_name=NAME takes one of them");
}

SelectedModel model_of_checkpoint(const config::Config& config, const fs::path& run,
                                  const CheckpointModel& model) {
  const Expert expert{.which = model.train_expert};
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  SelectedModel out;
  out.average = model.average && config.generate.use_ema;
  std::array<fs::path, 2> transformers;  // with one transformer: the first
  const auto add = [&](size_t place, const std::string& own) {
    transformers.at(place) = model.folder / (out.average ? training::average_part(own) : own);
  };
  const bool low = expert.is_low_noise();
  if (expert.is_both()) {
    add(0, model.adapter ? training::kAdapter : "transformer");
    add(1, model.adapter ? training::kAdapter + std::string("_2") : "transformer_2");
  } else {
    add(low ? 1 : 0, model.adapter ? training::kAdapter : low ? expert.part() : model.part);
  }
  if (model.words || model.control) {
    const std::string part = model.words ? training::kWords : training::kControl;
    const fs::path trained = model.folder / (out.average ? training::average_part(part) : part);
    if (model.words) {
      out.text_adapters.words = trained;
    } else {
      out.folder.controlnets.push_back({.path = trained});
    }
    transformers[0] = pretrained_transformer(config, "transformer");
    check(is_here(transformers[0]) || fs::is_regular_file(transformers[0]),
          "[generate] {} contains {}, but the model that {} for is missing\n"
          "  pretrained_model_name_or_path must be the model that the run started from",
          model.folder.string(), model.words ? "words" : "a ControlNet",
          model.words ? "they are" : "it is");
  }
  for (size_t place = 0; model.adapter && place < 2; ++place) {
    fs::path& trained = transformers.at(place);
    if (trained.empty()) {
      continue;
    }
    const char* part = place == 1 ? "transformer_2" : "transformer";
    out.adapters.at(place) = std::exchange(trained, pretrained_transformer(config, part));
    out.adapter_start = model.adapter_start;
    check(is_here(trained) || fs::is_regular_file(trained),
          "[generate] {} contains an adapter, but its transformer is missing ({})\n"
          "  pretrained_model_name_or_path must be the model that the run started from",
          model.folder.string(), trained.empty() ? "none is named" : trained.string());
    trained = with_module(config, trained, place);
  }
  out.folder.folder = model.folder;
  out.folder.expand_timesteps =
      model.model_type == config::ModelType::TI2V || (pipeline && pipeline->expand_timesteps);
  out.folder.schedule = trained_schedule(model.folder, pipeline);
  out.folder.force_zeros_for_empty_prompt = pipeline && pipeline->force_zeros_for_empty_prompt;
  if (pipeline && is_here(pipeline->image_encoder) && is_here(pipeline->image_processor)) {
    out.folder.image_encoder = pipeline->image_encoder;
    out.folder.image_processor = pipeline->image_processor;
  }
  if (expert.which != config::TrainExpert::NONE) {
    if (!expert.is_both()) {
      fs::path& other = transformers.at(low ? 0 : 1);
      other = !pipeline ? fs::path() : low ? pipeline->transformer : pipeline->transformer_2;
      check(is_here(other),
            "[generate] {} contains only the {} expert, and pretrained_model_name_or_path is not a "
            "pipeline with the other one\n"
            "  give the folder of a pipeline with transformer/ and transformer_2/",
            model.folder.string(), expert.name());
    }
    out.folder.transformer_2 = transformers[1];
    out.folder.boundary_ratio = model.boundary_ratio;
    if (!out.folder.boundary_ratio) {
      out.folder.boundary_ratio = pipeline && pipeline->boundary_ratio
                                      ? *pipeline->boundary_ratio
                                      : config.generate.boundary_ratio.value;
    }
  }
  out.folder.transformer = transformers[0];
  constexpr std::array kTexts{model_files::kTextEncoder, model_files::kTextEncoder2};
  for (size_t i = 0; i < kTexts.size(); ++i) {
    const std::string part(kTexts.at(i));
    const fs::path trained = model.folder / (out.average ? training::average_part(part) : part);
    if (is_here(trained)) {
      out.text_adapters.trained.at(i) = trained;
    }
  }
  out.output = run / "samples" / model.folder.stem();  // without the suffix `.replaced`
  out.step = checkpoints::parse_step(model.folder.stem().string());
  return out;
}

SelectedModel model_of_run(const config::Config& config, const fs::path& run,
                           CheckpointModel model) {
  model.model_type = config.model.model_type;
  return model_of_checkpoint(config, run, model);
}

SelectedModel find_model(const config::Loaded& loaded, const Job& job) {
  SelectedModel model = pretrained_or_trained(loaded.config, job);
  const config::ModelConfig& named = loaded.config.model;
  const char* transformer_key = "wan_transformer_pretrained_model_name_or_path";
  check(!model.step || has_adapter(loaded.config) || !on_command_line(loaded, transformer_key),
        "[generate] the run `{}` is sampled with its own transformer, not with {}\n"
        "  run_name= without a name samples that one",
        loaded.config.run.run_name, named.wan_transformer_pretrained_model_name_or_path);
  const config::Given<double>& ratio = loaded.config.generate.boundary_ratio;
  if (ratio.given && model.folder.has_two_experts()) {
    model.folder.boundary_ratio = ratio;
  }
  return model;
}

config::Loaded with_checkpoint_step(config::Loaded loaded, int64_t step) {
  loaded.config.generate.generate_checkpoint_step = step;
  return loaded;
}

fs::path checkpoint_folder(const config::Config& config, int64_t step) {
  return checkpoints_folder(config, run_folder(config)) / std::to_string(step);
}

}  // namespace kinema::model_source
