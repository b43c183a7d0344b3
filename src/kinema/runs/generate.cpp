#include "kinema/runs/generate.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/networks/open.h"
#include "kinema/runs/compiler_flags.h"
#include "kinema/runs/device.h"
#include "kinema/runs/generation.h"
#include "kinema/runs/kernel_check.h"
#include "kinema/runs/lacks.h"
#include "kinema/runs/lora.h"
#include "kinema/runs/model_options.h"
#include "kinema/runs/model_schedule.h"
#include "kinema/runs/models.h"
#include "kinema/runs/shared_generation.h"
#include "kinema/runs/shared_start.h"
#include "kinema/runs/stores.h"
#include "kinema/runs/tile_search.h"
#include "kinema/sample/output.h"
#include "kinema/weights/weights.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// per_device_batch_size or global_batch_size on the command line say how many videos of each
/// prompt there are.
void apply_batch(const config::Loaded& loaded, const mesh::Placement& place, const Job& job,
                 sample::GenerateRequest& request) {
  const auto videos = videos_of_batch(loaded, place.devices());
  if (!videos) {
    return;
  }
  request.num_videos_per_prompt = *videos;
  if (!loaded.config.generate.generate_batch_size.given) {
    request.batch_size = *videos;
  }
  job.line(fmt::format("{}s of each prompt: {} ({})", request.noun, *videos,
                       batch_origin(loaded.config, place)));
}

GenerateStart start_of(const sample::GenerateRequest& request,
                       std::span<const sample::DenoiseBatch> batches, int64_t num_frames) {
  GenerateStart out{.num_frames = num_frames,
                    .height = request.height,
                    .width = request.width,
                    .num_inference_steps = request.num_inference_steps};
  for (const sample::DenoiseBatch& batch : batches) {
    out.videos += batch.latents.shape.dims.front();
  }
  return out;
}

/// What the sampling room tells, in this room's terms. `output` is made once it is known that there
/// will be something to write. `meet`: see generate; none where videos are made together.
sample::GenerateObserver listening(const GenerateObserver& observer, const Job& job,
                                   const config::Config& config,
                                   const sample::GenerateRequest& request, io::FolderToFill& output,
                                   const std::string& allowed_flags,
                                   const std::function<void()>& meet) {
  const bool together = meet == nullptr && !job.world().is_alone();
  sample::GenerateObserver out;
  out.note = [&job](const std::string& line) { job.notice(line); };
  out.layout = [&job](const std::string& text) { job.line("batch: " + text); };
  if (config.parallel.debug_sharding && observer.on_sharding) {
    out.sharding = observer.on_sharding;
  }
  // Again before the long part: some folders say only then that nothing can be made there.
  out.encoded = [&observer, &job, &request, &output](std::span<const sample::DenoiseBatch> batches,
                                                     int64_t num_frames) {
    job.check_stop();
    output.make();
    if (observer.on_start) {
      observer.on_start(start_of(request, batches, num_frames));
    }
  };
  out.step = [&observer, &job, allowed_flags, together,
              task = std::shared_ptr<Task>()](const sample::DenoiseStep& step) mutable {
    if (together) {
      job.meet("a step of the sampler");
      job.check_stop();
    } else if (job.stop_asked()) {  // the others hear of it when they are done
      throw Stopped();
    }
    if (!task) {
      task = job.task("sampling", step.total);
      if (!allowed_flags.empty()) {
        job.notice("step 1" + allowed_flags);
      }
    }
    task->update(step.done);
    if (observer.on_step) {
      observer.on_step(step.done, step.total);
    }
  };
  if (meet && !job.world().is_alone() && !request.save_latents.empty()) {
    out.denoised = [&job, &request, meet](std::span<const sample::GeneratedVideo> videos) {
      meet();
      write_latents_of_all(request.save_latents, videos, job);
    };
  }
  return out;
}

/// The videos' own files, and what process 0 writes of all; `pipeline` is null where this process
/// writes none. `apart`: each has made its own.
void write(const fs::path& output, const sample::GenerateRequest& request,
           const sample::Pipeline* pipeline, const sample::OutputOptions& options,
           VideoStore& store, bool apart, GenerateResult& result, const Job& job) {
  std::vector<sample::ListedVideo> listed;
  if (pipeline != nullptr) {
    const sample::OutputFiles files =
        sample::write_videos(output, request, result.made, *pipeline, options);
    for (size_t i = 0; i < files.videos.size(); ++i) {
      sample::GeneratedVideo& video = result.made.videos[i];
      listed.push_back(sample::listed_video(files.videos[i], video, options));
      result.videos.push_back(
          {.path = store.path(files.videos[i]),
           .prompt = video.prompt,
           .index = video.index,
           .frames = std::move(video.frames),
           .latents = std::move(video.latents),
           .frames_folder = files.frames.empty() ? "" : store.path(files.frames[i])});
    }
  }
  result.made.videos.clear();
  if (apart) {
    gather_videos(result, listed, job);
  }
  if (job.world().is_first()) {
    const fs::path sheet = sample::write_list(output, listed, result.made.sizes.height, options);
    result.contact_sheet = sheet.empty() ? "" : store.path(sheet);
  }
  store.finish();
}

/// `checkpoint` becomes the one that is sampled.
GenerateResult generate_newest(config::Loaded loaded, fs::path& checkpoint,
                               const flags::Effective& flags, const GenerateObserver& observer,
                               const Job& job) {
  fetch_checkpoint(loaded.config, job);
  job.notice(check_run(loaded.config));
  VideoStore store(loaded.config.generate.video_folder, job);
  const bool from_run = has_checkpoint(loaded.config) && !has_adapter(loaded.config);
  fetch_models(loaded.config, from_run ? Use::GENERATE_FROM_RUN : Use::GENERATE, job);
  checkpoint = agree_on_checkpoint(
      loaded.config, [&] { return find_model(loaded, job); }, job);
  const config::Config& config = loaded.config;
  ModelToUse model;
  nn::ModelOptions options = model_options(config);
  std::vector<std::string> adapters;
  networks::Network network;
  read_together(
      checkpoint,
      [&] {
        model = find_model(loaded, job);
        checkpoint = model.checkpoint();
        adapters = add_lora(config, options, model, job);
        network = networks::open(model.folder.transformer);
      },
      job);
  job.notice(sample::doubts(model.folder));
  job.notice(file_notices(model.folder.transformer));
  sample::OutputOptions output_settings = output_options(loaded, model, flags::given_json(flags));
  output_settings.taken = store.names();
  for (const std::string& line : adapters) {
    job.notice("lora: " + line);
  }
  io::FolderToFill output(
      config.generate.video_folder.empty() ? model.output : fs::path(config.generate.video_folder));
  io::check_writable(output.path());
  sample::check_family(model.folder, network);
  sample::GenerateRequest request = make_request(loaded, model, network, job);
  job.notice(config::notices_of_model(
      loaded, "generate", lacks_of(network, model.folder.has_two_experts(), config, request)));
  request.share.all_texts = config.model.use_batched_text_encoder;
  check_same_request(request, store.is_remote() ? fs::path() : output.path(), job);
  job.begin();
  job.check_stop();
  const VideoDevices over = open_for_videos(config, job);
  const pjrt::Client& client = over.client;
  check_kernels(loaded.config, client, job);
  choose_tiles(loaded, PlanMode::GENERATE, client, job);
  options.attention = model_options(config).attention;
  const runtime::Devices devices(client, over.place);
  if (const mesh::Placement& place = devices.placement(); place.active()) {
    job.line(fmt::format("devices: {}, {}", devices.total(), mesh::axes_text(place.mesh().axes)));
  }
  apply_batch(loaded, devices.placement(), job, request);
  tell_shares(request, over.together, job);
  take_part(request, over.together, job);
  GenerateResult result{.transformer = model.folder.transformer};
  std::optional<sample::Pipeline> pipeline;
  job.world().begin(0, fmt::format("making {}s", request.noun), /*is_long=*/true);
  // Of several processes nobody writes before all have made theirs, or after one was stopped.
  bool met = false;
  const auto meet_with = [&](bool removed) {
    if (!job.world().is_alone()) {
      if (!std::exchange(met, true)) {
        check_still_there(checkpoint, removed, job);
        job.meet("the results");
      }
      job.check_stop();
    }
  };
  const std::function<void()> meet = [&] { meet_with(/*removed=*/false); };
  if (sample::videos_of_share(request, request.share.index).count > 0) {
    sample::PipelineOptions how{
        .model = options,
        .program = trying_kernels(step_program_options(config), devices, job),
        .releases_encoders = true};
    if (over.together) {
      how.agree = [&](const std::string& problem) {
        check_still_there(checkpoint, !problem.empty() && was_removed(checkpoint), job);
        return agree_on_problem(problem, job);
      };
    }
    const auto open = [&] {
      pipeline.emplace(devices, model.folder,
                       make_parts(config, model, network.sizes(), client, job), std::move(how));
    };
    try {
      if (over.together) {
        read_together(checkpoint, open, job);
      } else {
        open();
      }
      result.made = pipeline->generate(
          request, listening(observer, job, config, request, output, allowed_text(flags),
                             over.together ? nullptr : meet));
    } catch (const Stopped&) {
      if (!over.together) {
        meet();
      }
      throw;
    } catch (const Error&) {
      if (!over.together && !met && was_removed(checkpoint)) {
        meet_with(/*removed=*/true);
      }
      throw;
    }
  } else if (!request.save_latents.empty()) {
    meet();
    write_latents_of_all(request.save_latents, {}, job);
  }
  meet();
  const bool writes = pipeline && request.decodes;
  write(output.path(), request, writes ? &*pipeline : nullptr, output_settings, store,
        !over.together, result, job);
  return result;
}

}  // namespace

GenerateResult generate(config::Loaded loaded, const GenerateObserver& observer,
                        JobOptions given_options) {
  const Job job(observer, std::move(given_options));
  job.check_stop();
  job.notice(notices(loaded, "generate"));
  if (const config::GenerateConfig& keys = loaded.config.generate;
      keys.prompt_file.empty() && !loaded.gives("prompt")) {
    job.notice(fmt::format("no prompt is given: `{}` is taken", keys.prompt));
  }
  job.notice(prompt_notices(loaded));
  job.notice(device_notices(loaded.config));
  const std::shared_ptr<void> together = begin_together(loaded.config, job);
  const flags::Effective flags = check_flags(loaded, job);
  check_same_start(loaded.config, flags, job);
  return with_newest_checkpoint(loaded, job, [&](config::Loaded given, fs::path& checkpoint) {
    return generate_newest(std::move(given), checkpoint, flags, observer, job);
  });
}

}  // namespace kinema::runs
