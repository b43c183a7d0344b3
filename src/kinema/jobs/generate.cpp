#include "kinema/jobs/generate.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/flags/effective.h"
#include "kinema/io/folder.h"
#include "kinema/jobs/kept_pipeline.h"
#include "kinema/jobs/same_inputs.h"
#include "kinema/jobs/sampled_model.h"
#include "kinema/jobs/shared_generation.h"
#include "kinema/model_source/model_options.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/encoders.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/missing_features.h"
#include "kinema/resolve/prompts.h"
#include "kinema/resolve/shared_start.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/sample/output.h"
#include "kinema/stores/output_stores.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

GenerateStart start_of(const sample::GenerateRequest& request,
                       std::span<const sample::DenoiseBatch> batches, int64_t num_frames) {
  GenerateStart out{.num_frames = num_frames,
                    .height = request.height,
                    .width = request.width,
                    .num_inference_steps = request.steps()};
  for (const sample::DenoiseBatch& batch : batches) {
    out.videos += batch.latents.shape.dims.front();
  }
  return out;
}

/// The sampler's callbacks, which call this job's observer. `output` is created when there is
/// something to write. `sync_results`: waits for all processes before the results are written;
/// empty if videos are made together.
sample::GenerateObserver listening(const GenerateObserver& observer, const Job& job,
                                   const resolve::Settings& config,
                                   const sample::GenerateRequest& request, io::OutputFolder& output,
                                   const std::string& allowed_flags,
                                   const runtime::Devices& devices,
                                   std::optional<Previews>& previews,
                                   const std::function<void()>& sync_results) {
  const bool together = sync_results == nullptr && !job.world().is_alone();
  sample::GenerateObserver out;
  out.note = [&job](const std::string& line) { job.notice(line); };
  out.layout = [&job](const std::string& text) { job.line("batch: " + text); };
  if (resolve::generate_settings(config).debug_sharding && observer.on_sharding) {
    out.sharding = [&observer, &job](const std::vector<std::string>& lines) {
      job.tell(observer.on_sharding, lines);
    };
  }
  // Checked again before the long part: in some folders the failure shows only when they are
  // written.
  out.encoded = [&observer, &job, &request, &output, started = false](
                    std::span<const sample::DenoiseBatch> batches, int64_t num_frames) mutable {
    job.check_stop();
    output.make();
    if (observer.on_start && !std::exchange(started, true)) {
      job.tell(observer.on_start, start_of(request, batches, num_frames));
    }
  };
  if (observer.on_memory) {
    out.memory = [&observer, &job, &devices](const sample::MemoryUse& memory) {
      job.tell(observer.on_memory, memory.predicted(),
               runtime::held_bytes(devices) + runtime::free_bytes(devices));
    };
  }
  out.step = [&observer, &job, &previews, allowed_flags, together,
              task = std::shared_ptr<Task>()](const sample::DenoiseStep& step) mutable {
    if (together) {
      job.barrier("a step of the sampler");
      job.check_stop();
    } else if (job.local_stop_requested()) {  // the others see it at their next barrier
      throw Stopped();
    }
    if (!task) {
      task = job.task("sampling", step.total);
      if (!allowed_flags.empty()) {
        job.notice("step 1" + allowed_flags);
      }
    }
    task->update(step.done);
    job.tell(observer.on_step, step.done, step.total);
    if (previews) {
      previews->after(step);
    }
  };
  if (sync_results && !job.world().is_alone() && !request.save_latents.empty()) {
    out.denoised = [&job, &request, sync_results](std::span<const sample::GeneratedVideo> videos) {
      sync_results();
      write_latents_of_all(request.save_latents, videos, job);
    };
  }
  return out;
}

/// Writes the videos of this process (`pipeline` is null if it has none) and, in process 0, the
/// files about all of them. `apart`: each process has made its own videos.
void write(const fs::path& output, const sample::GenerateRequest& request,
           const sample::Pipeline* pipeline, const sample::OutputOptions& options,
           stores::VideoStore& store, bool apart, GenerateResult& result, const Job& job) {
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

/// Makes the videos of this process's share, which may be empty.
class LocalGeneration {
 public:
  LocalGeneration(const fs::path& checkpoint, bool together, const Job& job)
      : checkpoint_(checkpoint), together_(together), job_(job) {}

  /// A barrier: no process writes before all have made their videos, or after one was stopped.
  /// `removed`: this process found that the checkpoint was removed.
  void sync_results(bool removed = false) {
    if (job_.world().is_alone()) {
      return;
    }
    if (!std::exchange(synced_, true)) {
      check_not_removed(checkpoint_, removed, job_);
      job_.barrier("the results");
    }
    job_.check_stop();
  }

  /// Opens the pipeline with `open` and makes the request's videos.
  sample::Generated run(const std::function<sample::Pipeline&()>& open,
                        const sample::GenerateRequest& request,
                        const sample::GenerateObserver& observer) {
    try {
      sample::Pipeline* pipeline = nullptr;
      const auto open_now = [&] { pipeline = &open(); };
      if (together_) {
        read_together(checkpoint_, open_now, job_);
      } else {
        open_now();
      }
      return pipeline->generate(request, observer);
    } catch (const Stopped&) {
      if (!together_) {
        sync_results();
      }
      throw;
    } catch (const Error&) {
      if (!together_ && !synced_ && model_source::was_removed(checkpoint_)) {
        sync_results(/*removed=*/true);
      }
      throw;
    }
  }

  /// The callback PipelineOptions::agree, if the processes make each video together.
  std::function<std::string(const std::string&)> agree() const {
    if (!together_) {
      return nullptr;
    }
    return [this](const std::string& problem) {
      check_not_removed(checkpoint_, !problem.empty() && model_source::was_removed(checkpoint_),
                        job_);
      return agree_on_problem(problem, job_);
    };
  }

 private:
  const fs::path& checkpoint_;
  bool together_;
  const Job& job_;
  bool synced_ = false;
};

/// `checkpoint` is set to the one that is sampled. `kept`: of the last request, or null; set to
/// this request's. `keeps`: so many models stay loaded for other requests.
GenerateResult generate_newest(const resolve::Settings& given, fs::path& checkpoint,
                               const flags::Effective& flags, const GenerateObserver& observer,
                               const Job& job, std::unique_ptr<KeptPipeline>& kept, int64_t keeps) {
  const resolve::Settings settings = with_local_inputs(given, checkpoint, job);
  stores::VideoStore store(resolve::generate_settings(settings).video_folder, job);
  const SampledModel sampled = open_model(settings, checkpoint, job);
  const model_source::SelectedModel& model = sampled.model;
  const networks::Network& network = sampled.network;
  sample::OutputOptions output_settings =
      resolve::output_options(settings, model, flags::given_json(flags));
  output_settings.taken = store.names();
  for (const std::string& line : sampled.adapters) {
    job.notice("lora: " + line);
  }
  for (const std::string& line : sampled.controlnets) {
    job.notice("controlnet: " + line);
  }
  io::OutputFolder output(store.local().empty() ? model.output : fs::path(store.local()));
  io::check_writable(output.path());
  sample::check_family(model.folder, network);
  sample::GenerateRequest request = resolve::make_request(settings, model, network, job);
  output_settings.fps = request.fps.value_or(output_settings.fps);
  job.notice(resolve::model_notices(settings, network, model.folder.has_two_experts(), request));
  check_same_request(request, store.is_remote() ? fs::path() : output.path(), job);
  job.begin();
  job.check_stop();
  if (kept && !kept->fits(settings)) {
    kept.reset();  // before other devices are opened: these have the memory
  }
  if (!kept) {
    kept = std::make_unique<KeptPipeline>(settings, job, keeps);
  }
  kept->begin(settings, sampled, job);
  const VideoDevices& over = kept->opened();
  const runtime::Devices& devices = kept->devices();
  if (const mesh::Placement& place = devices.placement(); place.active()) {
    job.line(fmt::format("devices: {}, {}", devices.total(), mesh::axes_text(place.mesh().axes)));
  }
  if (const auto line = resolve::apply_batch(settings, devices.placement(), request)) {
    job.line(*line);
  }
  log_shares(request, over.together, job);
  set_share(request, over.together, job);
  GenerateResult result{.transformer = model.folder.transformer};
  job.world().begin(0, fmt::format("making {}s", request.noun), /*is_long=*/true);
  LocalGeneration generation(checkpoint, over.together, job);
  const std::function<void()> sync_results = [&] { generation.sync_results(); };
  std::optional<Previews> previews;
  if (sample::videos_in_share(request, request.share.index).count > 0) {
    const auto open = [&]() -> sample::Pipeline& {
      sample::Pipeline& pipeline =
          kept->pipeline(sampled, /*releases_encoders=*/keeps == 0, generation.agree());
      if (job.world().is_alone() && request.decodes) {
        previews.emplace(observer.previews, pipeline.autoencoder(),
                         resolve::autoencoder_text(settings), job);
      }
      return pipeline;
    };
    result.made = generation.run(
        open, request,
        listening(observer, job, settings, request, output, resolve::allowed_text(flags), devices,
                  previews, over.together ? nullptr : sync_results));
  } else if (!request.save_latents.empty()) {
    sync_results();
    write_latents_of_all(request.save_latents, {}, job);
  }
  sync_results();
  write(output.path(), request, request.decodes ? kept->loaded() : nullptr, output_settings, store,
        !over.together, result, job);
  return result;
}

/// A request, with or without other requests after it; `kept` as in generate_newest.
GenerateResult generate_one(const resolve::Settings& given, const GenerateObserver& observer,
                            const Job& job, std::unique_ptr<KeptPipeline>& kept, int64_t keeps) {
  job.check_stop();
  const resolve::Settings settings(resolve::with_prompt_loras(given));
  job.notice(resolve::notices(settings, "generate"));
  job.notice(resolve::default_prompt_notice(settings));
  job.notice(resolve::prompt_notices(settings));
  job.notice(resolve::device_notices(settings));
  const std::shared_ptr<void> together = resolve::start_heartbeat(settings, job);
  const flags::Effective flags = resolve::check_flags(settings, job);
  resolve::check_same_start(settings, flags, job);
  return model_source::with_newest_checkpoint(settings, job, [&](fs::path& checkpoint) {
    return generate_newest(settings, checkpoint, flags, observer, job, kept, keeps);
  });
}

}  // namespace

GenerateResult generate(const resolve::Settings& config, const GenerateObserver& observer,
                        JobOptions options) {
  const Job job(observer, std::move(options));
  std::unique_ptr<KeptPipeline> kept;
  return generate_one(config, observer, job, kept, /*keeps=*/0);
}

Generator::Generator(int64_t most) : most_(most) {}
Generator::~Generator() = default;

GenerateResult Generator::generate(const resolve::Settings& config,
                                   const GenerateObserver& observer, JobOptions options) {
  const Job job(observer, std::move(options));
  std::unique_ptr<KeptPipeline> kept = std::move(kept_);
  const int64_t keeps = job.world().is_alone() ? most_ : 0;
  // The request is over in every case before `kept_` is set: an error leaves nothing behind.
  const auto keep = [&] {
    if (kept && keeps > 0) {
      kept->end();
      kept_ = std::move(kept);
    }
  };
  try {
    GenerateResult made = [&] {
      bool has_begun = false;
      GenerateObserver watched = observer;
      watched.on_start = [&](const GenerateStart& start) {
        has_begun = true;
        if (observer.on_start) {
          observer.on_start(start);
        }
      };
      try {
        return generate_one(config, watched, job, kept, keeps);
      } catch (const Stopped&) {
        throw;
      } catch (const Error&) {
        // Other models may have the memory that was missing.
        if (has_begun || !kept || !kept->release_others()) {
          throw;
        }
      }
      return generate_one(config, observer, job, kept, keeps);
    }();
    keep();
    return made;
  } catch (const Stopped&) {
    keep();
    throw;
  }
}

void Generator::release() { kept_.reset(); }

DeviceUse Generator::device() const {
  if (!kept_) {
    return {};
  }
  const runtime::Devices& devices = kept_->devices();
  return {.kind = devices[0].description().kind,
          .platform = devices.client().platform_name(),
          .count = devices.total(),
          .bytes = runtime::held_bytes(devices),
          .limit = runtime::held_bytes(devices) + runtime::free_bytes(devices)};
}

bool Generator::is_loaded() const { return kept_ != nullptr && kept_->loaded() != nullptr; }

}  // namespace kinema::jobs
