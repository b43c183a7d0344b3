#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "kinema/cli/clip_report.h"
#include "kinema/cli/clips.h"
#include "kinema/cli/command.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/compiler_flags.h"
#include "kinema/cli/console.h"
#include "kinema/cli/device.h"
#include "kinema/cli/encoder_settings.h"
#include "kinema/cli/models.h"
#include "kinema/cli/progress.h"
#include "kinema/cli/quantities.h"
#include "kinema/cli/stopping.h"
#include "kinema/cli/stores.h"
#include "kinema/cli/trained_model.h"
#include "kinema/cli/wiring.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/preparation/prepare.h"
#include "kinema/weights/weights.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// Width of the text states: the transformer's, where there is one; 0: what the encoder gives.
int64_t text_dim(const config::Config& config) {
  if (config.model.text_encoder != "hashed") {
    return 0;
  }
  const fs::path transformer = pretrained_transformer(config);
  return transformer.empty() ? config.model.text_dim : weights::read_config(transformer).text_dim;
}

/// What decides latents and text states beside the clips.
preparation::Settings encoder_settings(const config::Config& config, int64_t text_dim) {
  preparation::Settings out = pixels_settings(config);
  out.merge(text_settings(config, text_dim));
  return out;
}

/// Where the configuration is for a model of images, CLIP of its pipeline, if it has one.
std::unique_ptr<encoders::ImageEncoder> image_encoder(const config::Config& config,
                                                      const pjrt::Client& client) {
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  if (!has_image_condition(config)) {
    const bool of_images = pipeline && pipeline->class_name == "WanImageToVideoPipeline" &&
                           !pipeline->expand_timesteps;
    check(
        !of_images,
        "[config] {} makes videos of images, but model_type is {}\n  model_type=I2V prepares what "
        "it is shown of them",
        config.model.pretrained_model_name_or_path, config.model.model_type);
    return nullptr;
  }
  check(pipeline || config.model.image_dim == 0,
        "[config] image_dim is {}, but pretrained_model_name_or_path is no pipeline with an image "
        "encoder",
        config.model.image_dim);
  return pipeline ? make_image_encoder(config, *pipeline, 0, client) : nullptr;
}

preparation::Options options_of(const config::Config& config, int64_t text_dim) {
  const config::DataConfig& d = config.data;
  preparation::Options out;
  out.name = clips_name(d);
  out.max_clips = d.max_train_samples;
  out.format = clip_format(config);
  out.output = d.tfrecords_dir;
  out.dtype = d.records_dtype == "bfloat16" ? DType::BF16 : DType::F32;
  out.records_per_shard = d.no_records_per_shard;
  out.settings = encoder_settings(config, text_dim);
  out.decode_threads = static_cast<int>(d.decode_threads);
  out.decode_ahead = d.prefetch_batches;
  return out;
}

/// The folders to write, in order, each as (what it is, how). The clips of the second begin where
/// those of the first end.
struct Part {
  const char* name;
  preparation::Options options;
  RecordStore* store;
};
std::vector<Part> parts_of(const config::Config& config,
                           const std::shared_ptr<const data::ClipSet>& clips, int64_t text_dim,
                           RecordStore& records, RecordStore& eval_records) {
  const config::DataConfig& d = config.data;
  std::vector<Part> out;
  preparation::Options all = options_of(config, text_dim);
  all.clips = clips;
  if (d.enable_eval_timesteps || !d.eval_tfrecords_dir.empty()) {
    preparation::Options eval = all;
    eval.output = d.enable_eval_timesteps ? d.tfrecords_dir : d.eval_tfrecords_dir;
    eval.max_records = d.num_eval_samples;
    eval.timesteps = d.timesteps_list;
    out.push_back({"evaluation", eval, d.enable_eval_timesteps ? &records : &eval_records});
  }
  if (!d.enable_eval_timesteps) {
    all.buckets = bucket_sizes(d);  // evaluations are of one size
    out.push_back({"training", all, &records});
  }
  // With a name behind it, a slash at the end makes no difference.
  const auto plain = [](const std::string& folder) {
    return fs::weakly_canonical(fs::absolute(fs::path(folder) / "x"));
  };
  check(out.size() < 2 || plain(d.tfrecords_dir) != plain(d.eval_tfrecords_dir),
        "[config] tfrecords_dir and eval_tfrecords_dir are both {}", d.tfrecords_dir);
  return out;
}

/// Says what happens: lines and a bar for people; for `--json`, only what is skipped, on stderr.
class Reporter {
 public:
  explicit Reporter(bool json) : json_(json) {}

  preparation::Hooks hooks(const Part& part) {
    return {
        .on_clip =
            [this](int64_t done, int64_t total) {
              if (!progress_) {
                progress_.emplace("preparing", total);
              }
              progress_->update(done);
            },
        .on_skip =
            [](const preparation::SkippedClip& clip) {
              const std::string file = fs::path(clip.file).filename();
              const bool named = clip.reason.find(file) != std::string::npos;
              warn(named ? "skipped: " + clip.reason
                         : fmt::format("skipped: {}: {}", clip.file, clip.reason));
            },
        .on_shard =
            [this, store = part.store](const preparation::Shard& shard) {
              store->hint();
              line(fmt::format("{}: {}, {:.1f} MB", shard.name, counted(shard.records, "record"),
                               static_cast<double>(shard.bytes) / 1e6));
            },
        .stop_requested = [] { return Stopping::requested(); }};
  }

  void end(const Part& part, const preparation::Prepared& made) {
    progress_.reset();
    const auto made_now = static_cast<double>(made.records - made.records_found);
    line(fmt::format(
        "{} for {}: {} in {} of {}{}, {:.1f} MB", made.stopped ? "stopped" : "prepared", part.name,
        counted(made.records, "record"), counted(static_cast<int64_t>(made.shards.size()), "shard"),
        part.store->path(),
        made.records_found > 0 ? fmt::format(" ({} were there)", made.records_found) : "",
        static_cast<double>(made.bytes) / 1e6));
    if (made_now > 0) {
      const preparation::Seconds& s = made.seconds;
      line(fmt::format(
          "{} record: {} and {}{}; {:.2f} s (latents {:.2f}, text {:.2f}{}, writing {:.2f}, "
          "waiting for clips {:.2f})",
          part.options.buckets.empty() ? "a" : "the last", to_string(made.latents),
          to_string(made.text), of_images(made), s.total / made_now, s.latents / made_now,
          s.text / made_now, s.image > 0 ? fmt::format(", image {:.2f}", s.image / made_now) : "",
          s.writing / made_now, s.waiting / made_now));
    }
    if (!made.skipped.empty()) {
      line(fmt::format("skipped {}: {}", counted(static_cast<int64_t>(made.skipped.size()), "clip"),
                       made.skipped_list.string()));
    }
    reports_.append(report(part, made));
  }

  void finish() const {
    if (json_) {
      fmt::print("{}\n", io::Json::object({{"folders", reports_}}).dump());
    }
  }

 private:
  /// What records of models of images have more.
  static std::string of_images(const preparation::Prepared& made) {
    std::string out;
    if (!made.condition.dims.empty()) {
      out += ", image condition " + to_string(made.condition);
    }
    if (!made.image.dims.empty()) {
      out += ", image states " + to_string(made.image);
    }
    return out;
  }

  static io::Json report(const Part& part, const preparation::Prepared& made) {
    io::Json skipped = io::Json::array();
    for (const preparation::SkippedClip& clip : made.skipped) {
      io::Json each = io::Json::object();
      skipped.append(std::move(each.set("file", clip.file).set("reason", clip.reason)));
    }
    const preparation::Seconds& s = made.seconds;
    io::Json seconds = io::Json::object();
    seconds.set("total", s.total)
        .set("latents", s.latents)
        .set("text", s.text)
        .set("image", s.image)
        .set("writing", s.writing)
        .set("waiting", s.waiting);
    io::Json out = io::Json::object();
    out.set("kind", part.name)
        .set("folder", part.store->path())
        .set("clips", made.clips)
        .set("records", made.records)
        .set("records_found", made.records_found)
        .set("shards", static_cast<int64_t>(made.shards.size()))
        .set("bytes", made.bytes)
        .set("skipped", std::move(skipped))
        .set("seconds", std::move(seconds))
        .set("stopped", made.stopped);
    return out;
  }

  void line(const std::string& text) {
    if (!json_) {
      print_line(text);
    }
  }

  bool json_;
  std::optional<Progress> progress_;
  io::Json reports_ = io::Json::array();
};

int prepare_run(const std::vector<std::string>& words, bool json) {
  config::Loaded loaded = load_arguments(words, /*need_file=*/true);
  for (const std::string& line : notices(loaded, "prepare")) {
    warn(line);
  }
  check_flags(loaded);
  fetch_models(loaded.config, Use::PREPARE);
  config::DataConfig& data = loaded.config.data;
  data.train_data_dir = local_copy(data.train_data_dir);
  RecordStore records(data.tfrecords_dir);
  RecordStore eval_records(data.eval_tfrecords_dir);
  const config::Config& config = loaded.config;
  const Stopping stop("this clip; what is prepared stays");
  const int64_t width = text_dim(config);
  const std::shared_ptr<const data::ClipSet> clips = open_clips(config);
  const fs::path folder = fs::path(records.path()) / "";  // with or without a slash at its end
  const std::string list = folder.parent_path().string() + ".skipped.jsonl";
  for (const std::string& each :
       report_lines(config, *clips, look_at_clips(config, *clips), {}, list)) {
    warn(each);
  }
  std::vector<Part> parts = parts_of(config, clips, width, records, eval_records);
  const pjrt::Client client = runtime::open_client(client_spec(config));
  const auto autoencoder = make_autoencoder(config, client);
  const auto text_encoder = make_text_encoder(config, width, client, TextUse::CAPTIONS);
  const auto clip = image_encoder(config, client);
  const preparation::Encoders models{.autoencoder = *autoencoder,
                                     .text = *text_encoder,
                                     .image_condition = has_image_condition(config),
                                     .image = clip.get()};
  Reporter reporter(json);
  int64_t first_clip = 0;
  for (Part& part : parts) {
    part.options.first_clip = first_clip;
    const preparation::Prepared made = prepare_records(part.options, models, reporter.hooks(part));
    part.store->finish();
    reporter.end(part, made);
    first_clip = made.end_clip;
    if (made.stopped) {
      break;
    }
  }
  reporter.finish();
  return 0;
}

}  // namespace

void add_prepare(Program& program) {
  Command command = program.add(
      "prepare", "Encode clips and captions into TFRecords; goes on where it was interrupted");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command
      .option("CONFIG key=value", *words,
              "a YAML file, and keys that win over it: train_data_dir (the videos), "
              "tfrecords_dir, height, width, num_frames, no_records_per_shard, ...")
      .required();
  command.flag("--json", *json, "print JSON about what was written, and no line a shard");
  command.run([words, json] { return prepare_run(*words, *json); });
}

}  // namespace kinema::cli
