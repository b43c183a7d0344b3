#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/commands.h"
#include "cli/device.h"
#include "cli/lora.h"
#include "cli/models.h"
#include "cli/progress.h"
#include "cli/wiring.h"
#include "core/error.h"
#include "io/json.h"
#include "sample/output.h"
#include "sample/pipeline.h"
#include "train/checkpoint_folder.h"
#include "weights/weights.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// True when `prompt` was asked for later than the `prompt_file` of a configuration.
bool prompt_wins(const config::Loaded& loaded) {
  const auto on_command_line = [&](const char* key) {
    const auto found = loaded.origin.find(key);
    return found != loaded.origin.end() && found->second == config::kCommandLine;
  };
  return on_command_line("prompt") && !on_command_line("prompt_file");
}

/// The prompts of prompt_file, one a line, or the one prompt.
std::vector<std::string> read_prompts(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  const std::string& path = config.generate.prompt_file;
  if (path.empty() || prompt_wins(loaded)) {
    return {config.generate.prompt};
  }
  std::ifstream in(path);
  check(in.good() && !fs::is_directory(path), "[generate] prompt_file {} cannot be read", path);
  std::vector<std::string> prompts;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (!line.empty()) {
      prompts.push_back(line);
    }
  }
  check(!prompts.empty(), "[generate] prompt_file {} holds no prompt", path);
  return prompts;
}

struct ModelToUse {
  sample::PipelineFolder folder;
  bool has_schedule = false;  // the folder says how to sample
  fs::path output;
};

/// A run's checkpoint as a pipeline, with the averaged weights when there are such.
ModelToUse from_checkpoint(const config::Config& config, const fs::path& run,
                           const fs::path& checkpoint) {
  ModelToUse out;
  out.folder = sample::read_pipeline_folder(checkpoint);
  const fs::path average = checkpoint / "transformer_ema";
  if (config.generate.use_ema && fs::is_directory(average)) {
    out.folder.transformer = average;
  }
  out.output = run / "samples" / checkpoint.filename();
  return out;
}

train::CheckpointFolder checkpoints_of(const config::Config& config) {
  return train::CheckpointFolder(config.run.checkpoint_dir.empty()
                                     ? run_folder(config) / "checkpoints"
                                     : fs::path(config.run.checkpoint_dir));
}

/// True when a run was named that has checkpoints: the pretrained transformer is not read then.
bool has_checkpoint(const config::Config& config) {
  return !config.run.run_name.empty() && !checkpoints_of(config).steps().empty();
}

/// The newest (or the given) checkpoint of the run, else the pretrained folder.
ModelToUse find_model(const config::Config& config) {
  if (!config.run.run_name.empty()) {
    const fs::path run = run_folder(config);
    const train::CheckpointFolder checkpoints = checkpoints_of(config);
    if (const int64_t step = config.generate.generate_checkpoint_step; step >= 0) {
      const fs::path folder = checkpoints.path(step);
      const std::string problem = train::manifest_problem(folder);
      check(problem.empty(), "[generate] {} cannot be used: {}", folder.string(), problem);
      return from_checkpoint(config, run, folder);
    }
    const train::Found found = checkpoints.newest();
    for (const train::Damage& each : found.damaged) {
      warn(fmt::format("{} is passed over: {}", each.folder.string(), each.reason));
    }
    if (found.step) {
      return from_checkpoint(config, run, found.folder);
    }
    check(!config.model.pretrained_model_name_or_path.empty(),
          "[generate] {} holds no checkpoint\n  train first: kinema train CONFIG run_name={}",
          checkpoints.path().string(), config.run.run_name);
  }
  const fs::path transformer = pretrained_transformer(config);
  check(!transformer.empty(),
        "[generate] no model: give run_name=... of a training run, or "
        "pretrained_model_name_or_path=FOLDER");
  ModelToUse out;
  const std::string& pipeline = config.model.pretrained_model_name_or_path;
  out.folder = sample::read_pipeline_folder(!pipeline.empty() &&
                                                    fs::path(pipeline).filename() != "transformer"
                                                ? fs::path(pipeline)
                                                : transformer.parent_path());
  out.folder.transformer = transformer;
  out.has_schedule = fs::exists(out.folder.folder / "scheduler" / "scheduler_config.json");
  out.output = config.run.run_name.empty() ? fs::path(config.run.output_dir) / "samples"
                                           : run_folder(config) / "samples" / "pretrained";
  return out;
}

/// The folder's own schedule where there is one, with what was given on top.
schedulers::ScheduleConfig schedule(const config::Loaded& loaded, const ModelToUse& model) {
  schedulers::ScheduleConfig out = model.folder.schedule;
  const config::GenerateConfig& g = loaded.config.generate;
  if (!model.has_schedule || loaded.origin.contains("scheduler")) {
    out.sampler = schedulers::sampler_from_string(g.scheduler);
  }
  if (!model.has_schedule || loaded.origin.contains("flow_shift")) {
    out.shift = g.flow_shift;
  }
  return out;
}

sample::GenerateRequest make_request(const config::Loaded& loaded, const ModelToUse& model) {
  const config::GenerateConfig& g = loaded.config.generate;
  sample::GenerateRequest request;
  request.prompts = read_prompts(loaded);
  request.negative_prompt = g.negative_prompt;
  request.num_frames = g.num_frames;
  request.height = g.height;
  request.width = g.width;
  request.num_inference_steps = g.num_inference_steps;
  request.guidance_scale = g.guidance_scale;
  if (model.folder.has_two_experts() && !loaded.origin.contains("guidance_scale")) {
    request.guidance_scale = g.guidance_scale_high;
    request.guidance_scale_2 = g.guidance_scale_low;
  }
  request.seed = static_cast<uint64_t>(loaded.config.run.seed);
  request.batch_size = g.generate_batch_size;
  request.two_passes = g.guidance_in_two_passes;
  request.schedule = schedule(loaded, model);
  request.initial_latents = g.initial_latents;
  request.save_latents = g.save_latents;
  return request;
}

void report(const sample::Generated& made, const sample::OutputFiles& files,
            const ModelToUse& model, bool json) {
  if (!json) {
    fmt::print("{}", sample::timing_table(made));
    for (const fs::path& video : files.videos) {
      fmt::print("{}\n", video.string());
    }
    fmt::print("contact sheet: {}\n", files.contact_sheet.string());
    return;
  }
  io::Json videos = io::Json::array();
  for (size_t i = 0; i < files.videos.size(); ++i) {
    io::Json video = io::Json::object();
    video.set("prompt", made.videos[i].prompt).set("path", files.videos[i].string());
    videos.append(std::move(video));
  }
  io::Json out = io::Json::object();
  out.set("model", model.folder.transformer.string())
      .set("videos", std::move(videos))
      .set("contact_sheet", files.contact_sheet.string())
      .set("seconds", made.timings.total());
  fmt::print("{}\n", out.dump());
}

int generate(const std::vector<std::string>& words, bool json) {
  config::Loaded loaded = load_arguments(words, /*need_file=*/true);
  for (const std::string& line : notices(loaded, "generate")) {
    warn(line);
  }
  fetch_models(loaded.config,
               has_checkpoint(loaded.config) ? Use::GENERATE_FROM_RUN : Use::GENERATE);
  const config::Config& config = loaded.config;
  ModelToUse model = find_model(config);
  if (loaded.origin.contains("boundary_ratio") && model.folder.has_two_experts()) {
    model.folder.boundary_ratio = config.generate.boundary_ratio;
  }
  for (const std::string& line : add_lora(config, model_options(config), model.folder)) {
    warn("lora: " + line);
  }
  const sample::GenerateRequest request = make_request(loaded, model);
  const int64_t text_dim = weights::read_config(model.folder.transformer).text_dim;
  const pjrt::Client client = runtime::open_client(client_spec(config));
  auto autoencoder = make_autoencoder(config, client);
  auto text_encoder = make_text_encoder(config, text_dim, client);
  const fs::path output =
      config.generate.video_folder.empty() ? model.output : fs::path(config.generate.video_folder);
  sample::Pipeline pipeline(client, model.folder, model_options(config), std::move(autoencoder),
                            std::move(text_encoder), program_options(config));
  sample::Generated made;
  {
    std::unique_ptr<Progress> progress;
    made = pipeline.generate(request, [&](const sample::DenoiseStep& step) {
      if (!progress) {
        progress = std::make_unique<Progress>("sampling", step.total);
      }
      progress->update(step.done);
    });
  }
  for (const std::string& note : made.notes) {
    warn(note);
  }
  sample::OutputOptions options;
  options.fps = static_cast<double>(config.generate.fps);
  options.enlarge = static_cast<int>(config.generate.video_enlarge);
  options.contact_sheet_columns = config.generate.contact_sheet_columns;
  const sample::OutputFiles files = sample::write_outputs(output, request, made, pipeline, options);
  report(made, files, model, json);
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("generate", "Make videos of prompts: mp4 and a contact sheet");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command
      ->add_option("CONFIG key=value", *words,
                   "a YAML file, and keys that win over it: prompt, prompt_file, run_name, "
                   "pretrained_model_name_or_path, seed, video_folder, save_latents, ...")
      ->required();
  command->add_flag("--json", *json, "print JSON about what was written");
  command->callback([=, &action] { action = [words, json] { return generate(*words, *json); }; });
}

}  // namespace kinema::cli
