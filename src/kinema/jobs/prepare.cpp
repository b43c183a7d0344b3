#include "kinema/jobs/prepare.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/datasets/clip_report.h"
#include "kinema/datasets/clips.h"
#include "kinema/flags/effective.h"
#include "kinema/jobs/same_inputs.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/models.h"
#include "kinema/model_source/network.h"
#include "kinema/model_source/pictures.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/networks/open.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/resolve/dataset.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/encoder_settings.h"
#include "kinema/resolve/encoders.h"
#include "kinema/resolve/missing_features.h"
#include "kinema/resolve/preparation.h"
#include "kinema/resolve/shared_start.h"
#include "kinema/stores/local_copies.h"
#include "kinema/stores/output_stores.h"
#include "kinema/training/objective.h"
#include "kinema/weights/weights.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

preparation::Hooks hooks_of(const PrepareObserver& observer, const Job& job,
                            stores::RecordStore* store) {
  return {.on_clip = job.progress("preparing"),
          .on_skip =
              [&](const preparation::SkippedClip& clip) {
                if (observer.on_skip) {
                  job.tell(observer.on_skip, clip);
                } else {
                  job.notice(fmt::format("skipped: {}: {}", clip.file, clip.reason));
                }
              },
          .on_shard =
              [&observer, &job, store](const preparation::Shard& shard) {
                store->hint();
                job.tell(observer.on_shard, shard);
              },
          .stop_requested = [&job] { return job.local_stop_requested(); }};
}

/// The stores of records; null in processes that write none.
struct RecordStores {
  stores::RecordStore* training;
  stores::RecordStore* evaluation;
};

/// Writes the folders one after the other, until a stop is requested; returns the number of clips
/// that were skipped while decoding.
int64_t write_parts(std::vector<resolve::PreparedPart>& parts, const preparation::Encoders& models,
                    const char* noun, const RecordStores& into, const PrepareObserver& observer,
                    const Job& job, PrepareResult& result) {
  int64_t skipped = 0;
  int64_t first_clip = 0;
  for (resolve::PreparedPart& part : parts) {
    stores::RecordStore* store = part.in_eval_folder ? into.evaluation : into.training;
    part.options.first_clip = first_clip;
    part.options.world = &job.world();
    PreparedFolder made{
        .kind = part.kind,
        .path = store == nullptr ? "" : store->path(),
        .has_buckets = !part.options.buckets.empty() || part.options.own_sizes,
        .noun = noun,
        .made = prepare_records(part.options, models, hooks_of(observer, job, store))};
    if (store != nullptr) {
      store->finish();
      job.tell(observer.on_folder, made);
    }
    first_clip = made.made.end_clip;
    skipped += std::ssize(made.made.skipped);
    result.stopped = made.made.stopped;
    result.folders.push_back(std::move(made));
    if (result.stopped) {
      break;
    }
  }
  return skipped;
}

}  // namespace

PrepareResult prepare(const resolve::Settings& given, const PrepareObserver& observer,
                      JobOptions options) {
  const Job job(observer, std::move(options));
  job.notice(resolve::notices(given, "prepare"));
  const std::shared_ptr<void> together = resolve::start_heartbeat(given, job);
  const flags::Effective flags = resolve::check_flags(given, job);
  const resolve::Settings fetched =
      model_source::with_local_models(given, model_source::Use::PREPARE, job);
  resolve::check_same_start(fetched, flags, job);
  const resolve::PreparationFolders named = resolve::preparation_folders(fetched);
  resolve::PreparationFolders local = named;
  local.clips = stores::local_copy(named.clips, job);
  const bool writes = job.world().is_first();
  std::optional<stores::RecordStore> records;
  std::optional<stores::RecordStore> eval_records;
  if (writes) {
    records.emplace(named.records, job);
    eval_records.emplace(named.eval_records, job);
    local.records = records->local();
    local.eval_records = eval_records->local();
  }
  job.begin();
  const model_source::Pictures pictures = model_source::picture_settings(fetched);
  const resolve::Settings settings =
      model_source::with_image_keys(resolve::with_folders(fetched, local), pictures);
  const datasets::ClipSettings clip_settings = resolve::clip_settings(settings);
  const resolve::TextWidths widths = resolve::preparation_text_widths(settings);
  const std::shared_ptr<const data::ClipSet> clips = datasets::open_clips(clip_settings, job);
  const std::optional<model_source::PreparedInput> input = model_source::prepared_input(settings);
  std::vector<resolve::PreparedPart> parts = resolve::preparation_parts(
      settings, clip_settings,
      {.text = widths, .sizes = pictures.sizes, .writes = writes, .input = input});
  const pjrt::Client client = resolve::open_local_client(settings, job);
  check_same_devices(client, job);
  const auto autoencoder = resolve::make_autoencoder(settings, client);
  PrepareResult result;
  int64_t found_when_decoded = 0;
  if (writes) {
    const data::Survey survey = datasets::survey_dataset(clip_settings, *clips, job);
    datasets::check_enough(clip_settings, *clips, survey,
                           datasets::fits_frames(clip_settings, autoencoder->layout()));
    const fs::path folder = fs::path(records->path()) / "";  // with or without a slash at the end
    const std::string list = folder.parent_path().string() + ".skipped.jsonl";
    job.notice(datasets::report_lines(clip_settings, *clips, survey, {}, list));
    result.left_out = data::count_causes(survey);
    found_when_decoded = -survey.bad();
  }
  const auto text_encoder =
      resolve::make_text_encoder(settings, widths, client, job, resolve::TextUse::CAPTIONS);
  const auto clip = resolve::preparation_image_encoder(settings, client);
  check(input || !clips->has_controls(),
        "[prepare] the data set lists control, source or reference files, but the network, which "
        "takes them, is not here\n  wan_transformer_pretrained_model_name_or_path=FOLDER names it");
  const preparation::Encoders models{
      .autoencoder = *autoencoder,
      .text = *text_encoder,
      .input = {.input = input ? &input->input : nullptr, .last_frame = input && input->last_frame},
      .sizes = pictures.sizes,
      .image = clip.get()};
  for (resolve::PreparedPart& part : parts) {
    part.options.clips = clips;
  }
  found_when_decoded +=
      write_parts(parts, models, datasets::clip_noun(clip_settings),
                  {records ? &*records : nullptr, eval_records ? &*eval_records : nullptr},
                  observer, job, result);
  if (found_when_decoded > 0) {
    result.left_out.push_back({"damaged", found_when_decoded});
  }
  return result;
}

}  // namespace kinema::jobs
