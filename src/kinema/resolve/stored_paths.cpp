#include "kinema/resolve/stored_paths.h"

#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/remote/store.h"
#include "kinema/stores/local_copies.h"

namespace kinema::resolve {
namespace {

/// Downloads the newest checkpoint of a store, and again a newer one if a running training removes
/// it meanwhile. Returns its step; -1: there is none.
int64_t restore_newest(const std::string& checkpoints, const remote::StorePath& stored,
                       const Job& job) {
  const auto newest = [&] { return checkpoints::newest_step(remote::Store(stored)).value_or(-1); };
  for (int64_t step = newest(); step >= 0;) {
    try {
      if (checkpoints::checkpoint_exists(
              stores::local_copy(stores::below(checkpoints, std::to_string(step)), job))) {
        return step;
      }
    } catch (const Error&) {
      if (newest() == step) {
        throw;
      }
    }
    const int64_t now = newest();
    if (now == step) {
      return step;  // the reader reports the error
    }
    step = now;
  }
  return -1;
}

}  // namespace

void check_store_keys(const config::Loaded& loaded) {
  for (const config::KeyValue& each : config::describe(loaded.config)) {
    std::string value = each.value;
    value.erase(0, value.find_first_not_of("'\"[ "));
    check(each.field.in_store || each.field.prose || !remote::is_store_path(value),
          "[config] {} is {}: expected a local path", each.key, each.value);
  }
}

stores::RunOutputs run_outputs(const config::Config& config) {
  const config::RunConfig& run = config.run;
  check(!run.save_config_to_gcs || !run.base_output_directory.empty(),
        "[config] save_config_to_gcs writes to base_output_directory, which is empty");
  return {.output_dir = run.output_dir,
          .run_name = run.run_name,
          .checkpoint_dir = run.checkpoint_dir,
          .metrics_file = run.metrics_file,
          .timings_file = run.timing_metrics_file,
          .tensorboard_dir = run.tensorboard_dir,
          .metrics_dir = run.metrics_dir,
          .encoded_clips = config.data.dataset_save_location,
          .config_copy =
              run.save_config_to_gcs ? stores::below(run.base_output_directory, run.run_name) : "",
          .keep = {.newest = run.checkpoints_to_keep, .period = run.checkpoint_keep_period}};
}

config::Loaded with_outputs(config::Loaded loaded, const stores::RunOutputs& outputs) {
  config::RunConfig& run = loaded.config.run;
  run.output_dir = outputs.output_dir;
  run.checkpoint_dir = outputs.checkpoint_dir;
  run.metrics_file = outputs.metrics_file;
  run.timing_metrics_file = outputs.timings_file;
  run.tensorboard_dir = outputs.tensorboard_dir;
  run.metrics_dir = outputs.metrics_dir;
  loaded.config.data.dataset_save_location = outputs.encoded_clips;
  return loaded;
}

config::Loaded with_local_checkpoint(config::Loaded loaded, const Job& job) {
  config::RunConfig& run = loaded.config.run;
  config::GenerateConfig& generate = loaded.config.generate;
  const bool output = remote::is_store_path(run.output_dir);
  if (run.run_name.empty() || (!output && !remote::is_store_path(run.checkpoint_dir))) {
    check(!output, "[config] output_dir is {}: set run_name to one of its runs", run.output_dir);
    return loaded;
  }
  const std::string folder = stores::below(run.output_dir, run.run_name);
  const std::string checkpoints =
      run.checkpoint_dir.empty() ? stores::below(folder, "checkpoints") : run.checkpoint_dir;
  if (const auto stored = remote::read_store_path(checkpoints)) {
    const int64_t asked = generate.generate_checkpoint_step;
    const int64_t step = asked >= 0 ? asked : restore_newest(checkpoints, *stored, job);
    check(step >= 0 || !loaded.config.model.pretrained_model_name_or_path.empty(),
          "[generate] {} contains no checkpoint", checkpoints);
    generate.generate_checkpoint_step = step;
    if (const auto unsent = checkpoints::newest_unsent(stores::staging_folder(checkpoints));
        asked < 0 && unsent > step) {
      job.notice(
          fmt::format("the local checkpoint {} was not uploaded to {}, whose newest is {}; "
                      "resuming the run with `kinema train` uploads it",
                      *unsent, checkpoints, step));
    }
    run.checkpoint_dir =
        (stores::stores_folder() / "read" / stored->scheme / stored->bucket / stored->name)
            .string();
    if (asked >= 0) {
      stores::local_copy(stores::below(checkpoints, std::to_string(asked)), job);
    }
  }
  if (output) {
    std::string& videos = generate.video_folder;
    const int64_t step = generate.generate_checkpoint_step;
    videos = videos.empty()
                 ? stores::below(folder, "samples/" + (step < 0 ? std::string("pretrained")
                                                                : std::to_string(step)))
                 : videos;
    run.output_dir = stores::staging_folder(run.output_dir);
  }
  return loaded;
}

}  // namespace kinema::resolve
