#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "kinema/cli/command.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/compiler_flags.h"
#include "kinema/cli/device.h"
#include "kinema/cli/generation.h"
#include "kinema/cli/lora.h"
#include "kinema/cli/models.h"
#include "kinema/cli/progress.h"
#include "kinema/cli/quantities.h"
#include "kinema/cli/shared_settings.h"
#include "kinema/cli/stores.h"
#include "kinema/cli/wiring.h"
#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/sample/output.h"
#include "kinema/sample/pipeline.h"
#include "kinema/weights/weights.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

void report(const sample::Generated& made, const sample::OutputFiles& files,
            const ModelToUse& model, const VideoStore& videos_at, bool json) {
  if (!json) {
    fmt::print("{}", sample::timing_table(made));
    if (made.peak_bytes > 0) {
      fmt::print("{:<8}{:>9.2f} GB at its peak, {:.2f} GB predicted\n", "memory",
                 static_cast<double>(made.peak_bytes) / 1e9,
                 static_cast<double>(made.memory.predicted()) / 1e9);
    }
    if (made.reused_steps > 0) {
      fmt::print("{} of {} steps took a part from earlier ones\n", made.reused_steps, made.steps);
    }
    for (const fs::path& video : files.videos) {
      fmt::print("{}\n", videos_at.path(video));
    }
    if (!files.contact_sheet.empty()) {
      fmt::print("contact sheet: {}\n", videos_at.path(files.contact_sheet));
    }
    return;
  }
  io::Json videos = io::Json::array();
  for (size_t i = 0; i < files.videos.size(); ++i) {
    io::Json video = io::Json::object();
    video.set("prompt", made.videos[i].prompt)
        .set("index", made.videos[i].index)
        .set("path", videos_at.path(files.videos[i]));
    if (!files.frames.empty()) {
      video.set("frames", videos_at.path(files.frames[i]));
    }
    videos.append(std::move(video));
  }
  io::Json out = io::Json::object();
  out.set("model", model.folder.transformer.string())
      .set("num_frames", made.sizes.num_frames)
      .set("height", made.sizes.height)
      .set("width", made.sizes.width)
      .set("videos", std::move(videos));
  if (!files.contact_sheet.empty()) {
    out.set("contact_sheet", videos_at.path(files.contact_sheet));
  }
  out.set("steps", made.steps).set("reused_steps", made.reused_steps);
  io::Json memory = io::Json::object();
  memory.set("predicted_bytes", made.memory.predicted()).set("peak_bytes", made.peak_bytes);
  memory.set("parts", io::Json::object({{"held", made.memory.held},
                                        {"text", made.memory.text},
                                        {"steps", made.memory.steps},
                                        {"decode", made.memory.decode},
                                        {"frames", made.memory.frames}}));
  out.set("memory", std::move(memory));
  out.set("seconds", made.timings.total()).set("timings", sample::timing_json(made));
  fmt::print("{}\n", out.dump());
}

/// `org/name`, perhaps with a revision, and no file of this machine.
bool is_hub_id(const std::string& word) {
  return std::ranges::count(word, '/') == 1 && !word.starts_with('/') && !word.starts_with('.') &&
         !word.ends_with(".yml") && !word.ends_with(".yaml") && !word.ends_with(".json") &&
         !fs::exists(word);
}

/// What stands on the command line.
struct Words {
  std::vector<std::string> words;
  std::vector<SharedSettings> shared;  // of videos' `.json`; part of `words` already
};

/// `FOLDER`, `org/name` or `VIDEO.json` in place of a configuration: a pipeline's folder or hub id
/// is the model, and the `.json` beside a video holds settings that make it again.
Words expanded(const std::vector<std::string>& words) {
  Words out;
  std::vector<std::string> first;
  for (const std::string& word : words) {
    const bool key_value = word.find('=') != std::string::npos;
    if (!key_value && (fs::is_directory(word) || is_hub_id(word))) {
      first.push_back("pretrained_model_name_or_path=" + word);
    } else if (!key_value && word.ends_with(".json")) {
      const SharedSettings& shared = out.shared.emplace_back(read_shared_settings(word));
      first.insert(first.end(), shared.words.begin(), shared.words.end());
    } else {
      out.words.push_back(word);
    }
  }
  out.words.insert(out.words.begin(), first.begin(), first.end());
  return out;
}

int generate(const std::vector<std::string>& words, bool json) {
  const Words given = expanded(words);
  config::Loaded loaded = load_arguments(given.words, /*need_file=*/false);
  for (const SharedSettings& shared : given.shared) {
    for (const std::string& line : check_given(shared, loaded)) {
      warn(line);
    }
  }
  for (const std::string& line : notices(loaded, "generate")) {
    warn(line);
  }
  for (const std::string& line : device_notices(loaded.config)) {
    warn(line);
  }
  const flags::Effective flags = check_flags(loaded);
  fetch_checkpoint(loaded.config);
  for (const std::string& line : check_run(loaded.config)) {
    warn(line);
  }
  VideoStore videos(loaded.config.generate.video_folder);
  fetch_models(loaded.config,
               has_checkpoint(loaded.config) ? Use::GENERATE_FROM_RUN : Use::GENERATE);
  const config::Config& config = loaded.config;
  ModelToUse model = find_model(loaded);
  for (const std::string& line : sample::doubts(model.folder)) {
    warn(line);
  }
  sample::OutputOptions output_settings = output_options(loaded, model, flags::given_json(flags));
  output_settings.taken = videos.names();
  wan::ModelOptions options = model_options(config);
  for (const std::string& line : add_lora(config, options, model.folder)) {
    warn("lora: " + line);
  }
  const fs::path output =
      config.generate.video_folder.empty() ? model.output : fs::path(config.generate.video_folder);
  io::check_writable(output);
  sample::GenerateRequest request = make_request(loaded, model);
  const pjrt::Client client = runtime::open_client(client_spec(config));
  const runtime::Devices devices(client, placement(config, client));
  if (const mesh::Placement& place = devices.placement(); place.active() && !json) {
    fmt::print("devices: {}, {}\n", devices.count(), mesh::axes_text(place.mesh().axes));
  }
  if (const auto videos = videos_of_batch(loaded, devices.placement().devices())) {
    request.num_videos_per_prompt = *videos;
    if (!loaded.origin.contains("generate_batch_size")) {
      request.batch_size = *videos;
    }
    if (!json) {
      fmt::print("videos of each prompt: {} ({})\n", *videos,
                 batch_origin(config, devices.placement()));
    }
  }
  const wan::TransformerConfig sizes = weights::read_config(model.folder.transformer);
  sample::Pipeline pipeline(devices, model.folder, make_parts(config, model, sizes, client),
                            {.model = options, .program = step_program_options(config)});
  sample::Generated made;
  {
    std::unique_ptr<Progress> progress;
    sample::GenerateObserver observer;
    observer.note = warn;
    if (!json) {
      observer.layout = [](const std::string& text) { fmt::print("batch: {}\n", text); };
    }
    if (config.parallel.debug_sharding) {
      observer.sharding = [&](const std::vector<std::string>& lines) {
        fmt::print(json ? stderr : stdout, "{}\n", fmt::join(lines, "\n"));
      };
    }
    // Again before the long part: some folders say only then that nothing can be made there.
    observer.encoded = [&](std::span<const sample::DenoiseBatch> batches) {
      io::make_folder(output);
      int64_t videos = 0;
      for (const sample::DenoiseBatch& batch : batches) {
        videos += batch.latents.shape.dims.front();
      }
      if (!json) {  // a step of a large model takes minutes, and the bar comes with the first
        warn(fmt::format("sampling {} of {} frames of {} x {} in {}", counted(videos, "video"),
                         request.num_frames, request.height, request.width,
                         counted(request.num_inference_steps, "step")));
      }
    };
    observer.step = [&](const sample::DenoiseStep& step) {
      if (!progress) {
        progress = std::make_unique<Progress>("sampling", step.total);
        if (const std::string allowed = allowed_text(flags); !allowed.empty()) {
          warn("step 1" + allowed);
        }
      }
      progress->update(step.done);
    };
    made = pipeline.generate(request, observer);
  }
  const sample::OutputFiles files =
      sample::write_outputs(output, request, made, pipeline, output_settings);
  videos.finish();
  report(made, files, model, videos, json);
  return 0;
}

}  // namespace

void add_generate(Program& program) {
  Command command =
      program.add("generate", "Make videos of prompts and images: mp4 and a contact sheet");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command
      .option("CONFIG key=value", *words,
              "a YAML file, the folder or hub id of a pipeline, or the .json beside a video, and "
              "keys that win over it: prompt, prompt_file, image_url, run_name, "
              "pretrained_model_name_or_path, seed, video_folder, save_latents, ...")
      .required();
  command.flag("--json", *json, "print JSON about what was written");
  command.run([words, json] { return generate(*words, *json); });
}

}  // namespace kinema::cli
