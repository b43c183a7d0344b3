#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/cli/processes.h"
#include "kinema/cli/stopping.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/io/json.h"
#include "kinema/jobs/generate.h"
#include "kinema/resolve/load.h"
#include "kinema/sample/output.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

void print_result(const jobs::GenerateResult& result) {
  fmt::print("{}", sample::timing_table(result.made));
  const sample::Generated& made = result.made;
  if (made.peak_bytes > 0) {
    fmt::print("{:<8}{:>9.2f} GB peak, {:.2f} GB predicted\n", "memory",
               static_cast<double>(made.peak_bytes) / 1e9,
               static_cast<double>(made.memory.predicted()) / 1e9);
  }
  if (made.reused_steps > 0) {
    fmt::print("{} of {} steps reused a part of earlier ones\n", made.reused_steps, made.steps);
  }
  for (const auto& video : result.videos) {
    fmt::print("{}\n", video.path);
  }
  if (!result.contact_sheet.empty()) {
    fmt::print("contact sheet: {}\n", result.contact_sheet);
  }
}

io::Json to_json(const jobs::GenerateResult& result) {
  const sample::Generated& made = result.made;
  io::Json videos = io::Json::array();
  for (const auto& each : result.videos) {
    io::Json video = io::Json::object();
    video.set("prompt", each.prompt).set("index", each.index).set("path", each.path);
    if (!each.frames_folder.empty()) {
      video.set("frames", each.frames_folder);
    }
    videos.append(std::move(video));
  }
  io::Json out = io::Json::object();
  out.set("model", result.transformer.string())
      .set("num_frames", made.sizes.num_frames)
      .set("height", made.sizes.height)
      .set("width", made.sizes.width)
      .set("videos", std::move(videos));
  if (!result.contact_sheet.empty()) {
    out.set("contact_sheet", result.contact_sheet);
  }
  out.set("steps", made.steps).set("reused_steps", made.reused_steps);
  io::Json memory = io::Json::object();
  memory.set("predicted_bytes", made.memory.predicted()).set("peak_bytes", made.peak_bytes);
  memory.set("parts", io::Json::object({{"held", made.memory.held},
                                        {"text", made.memory.text},
                                        {"kept", made.memory.kept},
                                        {"steps", made.memory.steps},
                                        {"decode", made.memory.decode},
                                        {"frames", made.memory.frames}}));
  out.set("memory", std::move(memory));
  out.set("seconds", made.timings.total()).set("timings", sample::timing_json(made));
  return out;
}

/// Handles stop requests: sampling stops after the current step and writes nothing; after decoding
/// has started, everything is written.
void handle_stops(jobs::GenerateObserver& observer, std::optional<Stopping>& stopping,
                  const std::stop_source& stop) {
  observer.on_begin = [&] {
    stopping.emplace("the current operation; nothing is written yet", stop);
  };
  observer.on_start = [&, show = observer.on_start](const jobs::GenerateStart& start) {
    stopping.emplace("this step of the sampler; nothing is written yet", stop);
    if (show) {
      show(start);
    }
  };
  observer.on_step = [&](int64_t done, int64_t total) {
    if (done == total) {
      stopping.emplace("decoding and writing", stop);
    }
  };
}

int generate(const std::vector<std::string>& words, bool json) {
  const std::stop_source stop;
  std::optional<Stopping> stopping;
  JobOptions job = job_options(stop.get_token());
  job.world =
      joined_world("generate", words);  // first, so that errors in the arguments are reported once
  const config::Loaded loaded =
      resolve::load_generation(words, variables(), console_job(job.world));
  job.world = joined_world(loaded.config);
  jobs::GenerateObserver observer;
  show_on_console(observer, !json);
  if (!json) {  // a step of a large model takes minutes, and the bar appears only after the first
    observer.on_start = [](const jobs::GenerateStart& start) {
      const std::string what =
          start.num_frames == 1
              ? counted(start.videos, "image")
              : fmt::format("{} of {} frames", counted(start.videos, "video"), start.num_frames);
      warn(fmt::format("sampling {} of {} x {} in {}", what, start.height, start.width,
                       counted(start.num_inference_steps, "step")));
    };
  }
  observer.on_sharding = [json](const std::vector<std::string>& lines) {
    fmt::print(json ? stderr : stdout, "{}\n", fmt::join(lines, "\n"));
  };
  handle_stops(observer, stopping, stop);
  jobs::GenerateResult result;
  try {
    result = jobs::generate(loaded, observer, job);
  } catch (const Stopped&) {
    warn("stopped: nothing is written; the same command starts over, with the same result");
    return 0;
  }
  if (json) {
    fmt::print("{}\n", to_json(result).dump());
  } else {
    print_result(result);
  }
  return 0;
}

}  // namespace

void add_generate(Program& program) {
  Command command = program.add(
      "generate", "Generate videos or images from prompts: mp4 or PNG, and a contact sheet");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command
      .option(
          "CONFIG key=value", *words,
          "a YAML file, the folder or hub id of a pipeline, the .json of a video or an image, a "
          "picture that kinema made, and keys that override it: prompt, prompt_file, image_url, "
          "run_name, pretrained_model_name_or_path, seed, video_folder, save_latents, ...")
      .required();
  command.flag("--json", *json, "print JSON about what was written");
  command.run([words, json] { return generate(*words, *json); });
}

}  // namespace kinema::cli
