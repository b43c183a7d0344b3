#include "kinema/jobs/kept_pipeline.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "kinema/model_files/checkpoint.h"
#include "kinema/model_source/model_options.h"
#include "kinema/plans/kernel_check.h"
#include "kinema/plans/tile_search.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/same_model.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"

namespace kinema::jobs {

namespace fs = std::filesystem;

namespace {

/// A job that reports to the one at `current`, if there is one. It is never stopped: what it does
/// is part of a job that is.
Job relay_to(std::shared_ptr<const Job*> current, const Job& job) {
  Observer out;
  out.on_notice = [current](const std::string& line) {
    if (*current != nullptr) {
      (*current)->notice(line);
    }
  };
  out.on_line = [current](const std::string& line) {
    if (*current != nullptr) {
      (*current)->line(line);
    }
  };
  out.on_task = [current](const std::string& what, int64_t total) {
    return *current == nullptr ? nullptr : (*current)->task(what, total);
  };
  return {out, {.program = job.program(), .world = job.shared_world()}};
}

}  // namespace

KeptPipeline::KeptPipeline(const resolve::Settings& settings, const Job& job, int64_t most)
    : relay_(relay_to(current_, job)),
      settings_(settings),
      opened_(open_for_videos(settings, job)),
      devices_(opened_.client, opened_.place),
      most_(most) {}

bool KeptPipeline::fits(const resolve::Settings& settings) const {
  return resolve::same_devices(settings_, settings);
}

void KeptPipeline::begin(const resolve::Settings& settings, const SampledModel& sampled,
                         const Job& job) {
  *current_ = &job;
  const resolve::Settings tuned =
      plans::with_fastest_tiles(plans::with_checked_kernels(settings, opened_.client, job),
                                plans::PlanMode::GENERATE, opened_.client, job);
  std::vector<File> files = files_of(sampled);
  settings_ = settings;
  const auto known = std::ranges::find_if(models_, [&](const Model& model) {
    return model.pipeline && resolve::same_model(model.tuned, tuned) && model.files == files;
  });
  if (known != models_.end()) {
    models_.splice(models_.begin(), models_, known);
    if (!resolve::same_programs(models_.front().tuned, tuned)) {
      models_.front().programs = programs_for(tuned);
    }
    models_.front().tuned = tuned;
    return;
  }
  const std::shared_ptr<sample::StepPrograms> programs = programs_for(tuned);
  make_room(files);
  models_.push_front({.tuned = tuned, .files = std::move(files), .programs = programs});
}

std::shared_ptr<sample::StepPrograms> KeptPipeline::programs_for(
    const resolve::Settings& tuned) const {
  for (const Model& model : models_) {
    if (resolve::same_programs(model.tuned, tuned)) {
      return model.programs;
    }
  }
  return std::make_shared<sample::StepPrograms>(
      devices_, plans::with_kernel_check(resolve::step_program_options(tuned), devices_, relay_));
}

/// Of the last models to be used, those go whose memory the weights of these files need.
void KeptPipeline::make_room(const std::vector<File>& files) {
  int64_t wanted = 0;
  for (const File& file : files) {
    wanted += static_cast<int64_t>(file.bytes);
  }
  const auto has_changed = [](const Model& model) {
    return std::ranges::any_of(model.files, [](const File& file) {
      std::error_code error;
      const auto time = fs::last_write_time(file.path, error);
      return error || time != file.time || fs::file_size(file.path, error) != file.bytes;
    });
  };
  bool is_freed = std::erase_if(models_, [&](const Model& model) {
                    return !model.pipeline || has_changed(model);
                  }) > 0;
  while (!models_.empty() &&
         (std::ssize(models_) >= most_ || runtime::free_bytes(devices_) < wanted)) {
    models_.pop_back();
    is_freed = true;
    runtime::release_free_memory();
  }
  if (is_freed) {
    runtime::release_free_memory();
  }
}

bool KeptPipeline::release_others() {
  if (models_.size() < 2) {
    return false;
  }
  models_.erase(std::next(models_.begin()), models_.end());
  runtime::release_free_memory();
  return true;
}

sample::Pipeline& KeptPipeline::pipeline(const SampledModel& sampled, bool releases_encoders,
                                         std::function<std::string(const std::string&)> agree) {
  Model& model = models_.front();
  if (model.pipeline) {
    return *model.pipeline;
  }
  sample::PipelineOptions how{.model = sampled.options,
                              .programs = model.programs,
                              .releases_encoders = releases_encoders,
                              .agree = std::move(agree)};
  how.model.attention = model_source::model_options(model.tuned).attention;
  return model.pipeline.emplace(
      devices_, sampled.model.folder,
      resolve::make_parts(model.tuned, sampled.model, sampled.network.sizes(), opened_.client,
                          relay_),
      std::move(how));
}

std::vector<KeptPipeline::File> KeptPipeline::files_of(const SampledModel& sampled) {
  const sample::PipelineFolder& folder = sampled.model.folder;
  std::vector<File> out;
  const auto add_file = [&](const fs::path& path) {
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) {
      out.push_back(
          {path.string(), fs::file_size(path, ignored), fs::last_write_time(path, ignored)});
    }
  };
  const auto add = [&](const fs::path& path) {
    add_file(path);
    std::error_code error;
    for (auto each = fs::directory_iterator(path, error);
         !error && each != fs::directory_iterator(); each.increment(error)) {
      add_file(each->path());
    }
  };
  for (const fs::path& part : {folder.transformer, folder.transformer_2, folder.vae,
                               folder.text_encoder, folder.text_encoder_2, folder.image_encoder,
                               sampled.model.adapters[0], sampled.model.adapters[1]}) {
    std::ranges::for_each(model_files::layers_of(part), add);
  }
  for (const sample::ControlFolder& control : folder.controlnets) {
    add(control.path);
  }
  for (const fs::path& file : sampled.model.text_adapters.files()) {
    add(file);
  }
  for (const auto* adapters : {&folder.adapters, &folder.adapters_2}) {
    for (const weights::Adapter& adapter : *adapters) {
      add(adapter.lora->path());
    }
  }
  return out;
}

}  // namespace kinema::jobs
