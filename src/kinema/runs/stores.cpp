#include "kinema/runs/stores.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/remote/store_cache.h"
#include "kinema/runs/models.h"
#include "kinema/runtime/client.h"
#include "kinema/sample/output.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

// Keys that take the path of a store.
constexpr std::array<std::string_view, 21> kStoreKeys = {
    "train_data_dir",
    "eval_data_dir",
    "dataset_save_location",
    "tfrecords_dir",
    "eval_tfrecords_dir",
    "output_dir",
    "checkpoint_dir",
    "tensorboard_dir",
    "metrics_file",
    "timing_metrics_file",
    "metrics_dir",
    "base_output_directory",
    "video_folder",
    "pretrained_model_name_or_path",
    "wan_transformer_pretrained_model_name_or_path",
    "wan_vae_pretrained_model_name_or_path",
    "wan_text_encoder_pretrained_model_name_or_path",
    "lora_model_name_or_path",
    "prompt",
    "negative_prompt",
    "run_name"};

/// Tells lines of what goes on beside the job, for as long as it may.
std::function<void(const std::string&)> said_by(const Job& job) {
  return [job](const std::string& line) { job.notice(line); };
}

/// `path`/`name`, whether it is one of a store or not.
std::string below(const std::string& path, const std::string& name) {
  return path.ends_with('/') ? path + name : path + "/" + name;
}

/// Brings the newest checkpoint of a store here, and again a newer one where a training that goes
/// on removes it meanwhile. Its step; -1: there is none.
int64_t bring_newest(const std::string& checkpoints, const remote::StorePath& stored,
                     const Job& job) {
  const auto newest = [&] { return checkpoints::newest_step(remote::Store(stored)).value_or(-1); };
  for (int64_t step = newest(); step >= 0;) {
    try {
      if (checkpoints::is_there(local_copy(below(checkpoints, std::to_string(step)), job))) {
        return step;
      }
    } catch (const Error&) {
      if (newest() == step) {
        throw;
      }
    }
    const int64_t now = newest();
    if (now == step) {
      return step;  // who uses it says what is wrong with it
    }
    step = now;
  }
  return -1;
}

}  // namespace

fs::path stores_folder() { return fs::path(runtime::cache_folder()) / "stores"; }

void check_store_keys(const config::Loaded& loaded) {
  for (const config::KeyValue& each : config::describe(loaded.config)) {
    std::string value = each.value;
    value.erase(0, value.find_first_not_of("'\"[ "));
    check(!remote::is_store_path(value) || std::ranges::count(kStoreKeys, each.key) > 0,
          "[config] {} is {}: expected a path of this machine", each.key, each.value);
  }
}

std::string local_copy(const std::string& path, const Job& job) {
  const auto stored = remote::read_store_path(path);
  if (!stored) {
    return path;
  }
  return remote::fetch_from_store(*stored, {.cache = stores_folder() / "read"},
                                  download_progress(path, job))
      .string();
}

std::string watched_copy(const std::string& run) {
  const auto stored = remote::read_store_path(run);
  if (!stored) {
    return run;
  }
  const auto choose = [](std::vector<std::string> names) {
    std::erase_if(names, [](const std::string& name) {
      const std::string file = fs::path(name).filename().string();
      return name != "metrics.jsonl" && name != "config.yml" && file != "manifest.json" &&
             file != "contact_sheet.png";
    });
    return names;
  };
  return remote::fetch_from_store(*stored, {.cache = stores_folder() / "read", .choose = choose})
      .string();
}

std::string staging_of(const std::string& path) {
  const auto stored = remote::read_store_path(path);
  return stored ? (stores_folder() / "written" / stored->scheme / stored->bucket / stored->name)
                      .string()
                : path;
}

std::unique_ptr<remote::Mirror> mirror_of(const std::string& path, const std::string& local,
                                          const Job& job, std::vector<std::string> except) {
  const auto stored = remote::read_store_path(path);
  if (!stored) {
    return nullptr;
  }
  return std::make_unique<remote::Mirror>(
      local, remote::Store(*stored),
      remote::MirrorOptions{.except = std::move(except), .say = said_by(job)});
}

RecordStore::RecordStore(const std::string& folder, const Job& job)
    : path_(folder), local_(folder) {
  auto stored = remote::read_store_path(folder);
  if (!stored) {
    return;
  }
  const size_t slash = stored->name.rfind('/');
  const std::string name = stored->name.substr(slash == std::string::npos ? 0 : slash + 1);
  check(!name.empty(), "[config] {} is a bucket: records want a folder in it", folder);
  // A folder of its own, because what is kept beside the shards goes to the folder above.
  const fs::path local =
      stores_folder() / "prepared" / stored->scheme / stored->bucket / (stored->name + ".staging");
  local_ = (local / name).string();
  stored->name.resize(slash == std::string::npos ? 0 : slash);
  mirror_ = std::make_unique<remote::Mirror>(local, remote::Store(*stored),
                                             remote::MirrorOptions{.say = said_by(job)});
  mirror_->bring([&](const std::string& each) {
    return each.starts_with(name + "/") || each.starts_with(name + ".");
  });
  mirror_->start();
}

void RecordStore::hint() {
  if (mirror_) {
    mirror_->hint();
  }
}

void RecordStore::finish() {
  if (mirror_) {
    mirror_->flush();
  }
}

VideoStore::VideoStore(const std::string& folder, Job job) : path_(folder), job_(std::move(job)) {
  if (remote::is_store_path(folder)) {
    io::make_folder(stores_folder() / "videos");
    std::string name = (stores_folder() / "videos" / "XXXXXX").string();
    check(::mkdtemp(name.data()) != nullptr, "[generate] no folder can be made in {}",
          (stores_folder() / "videos").string());
    local_ = name;
  }
}

std::set<std::string> VideoStore::names() const {
  std::set<std::string> out;
  if (local_.empty()) {
    return out;
  }
  const remote::Store store(*remote::read_store_path(path_));
  for (const remote::StoredFile& file : store.list()) {
    out.insert(file.name.substr(0, file.name.find('/')));  // frames have a folder
    if (file.name == sample::kVideoList && job_.world().is_first()) {
      store.download(file, fs::path(local_) / file.name);
    }
  }
  return out;
}

void VideoStore::finish() {
  if (local_.empty()) {
    return;
  }
  try {
    mirror_of(path_, local_, job_)->flush();
  } catch (const Error& error) {
    const std::string what = error.what();
    fail("{}\n  the files are in {}", what.substr(0, what.find('\n')), local_);
  }
  std::error_code ignored;
  fs::remove_all(local_, ignored);
}

std::string VideoStore::path(const fs::path& file) const {
  return local_.empty() ? file.string()
                        : below(path_, file.lexically_relative(local_).generic_string());
}

RunStores::RunStores(const config::Config& config, Job job)
    : job_(std::move(job)), local_(config.run), local_encoded_(config.data.dataset_save_location) {
  config::RunConfig& run = local_;
  run_ = below(run.output_dir, run.run_name);
  // What lies in the run folder by default lies in it in the store too.
  std::string checkpoints = run.checkpoint_dir;
  if (remote::is_store_path(run.output_dir)) {
    checkpoints = checkpoints.empty() ? below(run_, "checkpoints") : checkpoints;
    outputs_.push_back(
        {run_, below(staging_of(run.output_dir), run.run_name), false, {"checkpoints"}});
  }
  if (run.save_config_to_gcs) {
    check(!run.base_output_directory.empty(),
          "[config] save_config_to_gcs writes to base_output_directory, which is empty");
    config_copy_ = below(run.base_output_directory, run.run_name);
  }
  if (remote::is_store_path(checkpoints)) {
    // Of several processes each host has its own: they may share the cache folder.
    const world::World& world = job_.world();
    checkpoints_ = std::make_unique<checkpoints::StoredCheckpoints>(
        remote::Store(*remote::read_store_path(checkpoints)), staging_of(checkpoints),
        checkpoints::Keep{.newest = run.checkpoints_to_keep, .period = run.checkpoint_keep_period},
        said_by(job_), world.is_alone() ? "" : world.hosts().at(static_cast<size_t>(world.rank())));
    run.checkpoint_dir = checkpoints_->local().path().string();
  }
  // Two mirrors of one folder would write the same files.
  const auto mirrored = [this](const std::string& folder) {
    std::string local = staging_of(folder);
    if (std::ranges::find(outputs_, local, &Output::local) == outputs_.end()) {
      outputs_.push_back({folder, local, false, {}});
    }
    return local;
  };
  for (std::string* file : {&run.metrics_file, &run.timing_metrics_file}) {
    if (remote::is_store_path(*file)) {
      const remote::StorePath path = *remote::read_store_path(*file);
      check(!path.name.empty(), "[config] {} is a bucket, expected a file in one", *file);
      const std::string text = path.text();
      const size_t slash = text.rfind('/');
      *file = below(mirrored(text.substr(0, slash)), text.substr(slash + 1));
    }
  }
  for (std::string* folder : {&run.tensorboard_dir, &run.metrics_dir}) {
    if (remote::is_store_path(*folder)) {
      *folder = mirrored(*folder);
    }
  }
  if (const std::string& encoded = config.data.dataset_save_location;
      remote::is_store_path(encoded)) {
    local_encoded_ = staging_of(encoded);
    outputs_.push_back({encoded, local_encoded_, true, {}});
  }
  run.output_dir = staging_of(run.output_dir);
}

config::Loaded RunStores::with_local_output(config::Loaded loaded) const {
  config::RunConfig& run = loaded.config.run;
  run.output_dir = local_.output_dir;
  run.checkpoint_dir = local_.checkpoint_dir;
  run.metrics_file = local_.metrics_file;
  run.timing_metrics_file = local_.timing_metrics_file;
  run.tensorboard_dir = local_.tensorboard_dir;
  run.metrics_dir = local_.metrics_dir;
  loaded.config.data.dataset_save_location = local_encoded_;
  return loaded;
}

void RunStores::begin(const std::string& config_text) {
  if (const auto stored = remote::read_store_path(config_copy_)) {
    remote::Store(*stored).write("config.yml", config_text);
  } else if (!config_copy_.empty()) {
    io::make_folder(config_copy_);
    io::write_file(fs::path(config_copy_) / "config.yml", config_text);
  }
  if (checkpoints_ && job_.world().is_alone()) {
    checkpoints_->pull();
  }
  for (const Output& output : outputs_) {
    io::make_folder(output.local);
    mirrors_.push_back(mirror_of(output.path, output.local, job_, output.except));
    // Of what a run writes, only rows of metrics are read again.
    mirrors_.back()->bring([&](const std::string& name) {
      return output.bring || fs::path(name).extension() == ".jsonl";
    });
    mirrors_.back()->start();
  }
}

void RunStores::bring_together() {
  if (checkpoints_ && !job_.world().is_alone()) {
    checkpoints_->pull_together(job_.world());
  }
}

void RunStores::restored() {
  if (checkpoints_ && !job_.world().is_alone()) {
    if (const std::string line = checkpoints_->restored(job_.world()); !line.empty()) {
      job_.line(line);
    }
  }
}

void RunStores::hint() {
  for (const auto& mirror : mirrors_) {
    mirror->hint();
  }
}

RunStores::~RunStores() {
  for (const auto& mirror : mirrors_) {
    try {
      mirror->flush();
    } catch (const std::exception&) {
      return;  // the error that ended the run is the one to tell
    }
  }
}

void RunStores::finish() {
  for (const auto& mirror : mirrors_) {
    mirror->flush();
  }
  mirrors_.clear();
  if (checkpoints_) {
    checkpoints_->check_sent();
  }
}

config::Loaded with_local_checkpoint(config::Loaded loaded, const Job& job) {
  config::RunConfig& run = loaded.config.run;
  config::GenerateConfig& generate = loaded.config.generate;
  const bool output = remote::is_store_path(run.output_dir);
  if (run.run_name.empty() || (!output && !remote::is_store_path(run.checkpoint_dir))) {
    check(!output, "[config] output_dir is {}: run_name says which run of it", run.output_dir);
    return loaded;
  }
  const std::string folder = below(run.output_dir, run.run_name);
  const std::string checkpoints =
      run.checkpoint_dir.empty() ? below(folder, "checkpoints") : run.checkpoint_dir;
  if (const auto stored = remote::read_store_path(checkpoints)) {
    const int64_t asked = generate.generate_checkpoint_step;
    const int64_t step = asked >= 0 ? asked : bring_newest(checkpoints, *stored, job);
    check(step >= 0 || !loaded.config.model.pretrained_model_name_or_path.empty(),
          "[generate] {} holds no checkpoint", checkpoints);
    generate.generate_checkpoint_step = step;
    if (const auto unsent = checkpoints::newest_unsent(staging_of(checkpoints));
        asked < 0 && unsent > step) {
      job.notice(
          fmt::format("checkpoint {} of this machine was not sent to {}, whose newest is {}; "
                      "`kinema train` of the run sends it",
                      *unsent, checkpoints, step));
    }
    run.checkpoint_dir =
        (stores_folder() / "read" / stored->scheme / stored->bucket / stored->name).string();
    if (asked >= 0) {
      local_copy(below(checkpoints, std::to_string(asked)), job);
    }
  }
  if (output) {
    std::string& videos = generate.video_folder;
    const int64_t step = generate.generate_checkpoint_step;
    videos = videos.empty() ? below(folder, "samples/" + (step < 0 ? std::string("pretrained")
                                                                   : std::to_string(step)))
                            : videos;
    run.output_dir = staging_of(run.output_dir);
  }
  return loaded;
}

}  // namespace kinema::runs
