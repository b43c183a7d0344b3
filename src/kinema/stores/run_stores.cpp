#include "kinema/stores/run_stores.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/stores/local_copies.h"

namespace kinema::stores {

namespace fs = std::filesystem;

RunStores::RunStores(const RunOutputs& named, Job job)
    : job_(std::move(job)), local_(named), run_(below(named.output_dir, named.run_name)) {
  RunOutputs& run = local_;
  // Checkpoints that are in the run folder by default are also in it in the store.
  std::string checkpoints = run.checkpoint_dir;
  if (remote::is_store_path(run.output_dir)) {
    checkpoints = checkpoints.empty() ? below(run_, "checkpoints") : checkpoints;
    outputs_.push_back(
        {run_, below(staging_folder(run.output_dir), run.run_name), false, {"checkpoints"}});
  }
  if (remote::is_store_path(checkpoints)) {
    // With several processes each host has its own staging folder: they may share the cache folder.
    const world::World& world = job_.world();
    checkpoints_ = std::make_unique<checkpoints::StoredCheckpoints>(
        remote::Store(*remote::read_store_path(checkpoints)), staging_folder(checkpoints), run.keep,
        [job = job_](const std::string& line) { job.notice(line); },
        world.is_alone() ? "" : world.hosts().at(static_cast<size_t>(world.rank())));
    run.checkpoint_dir = checkpoints_->local().path().string();
  }
  // Two mirrors of one folder would write the same files.
  const auto mirrored = [this](const std::string& folder) {
    std::string local = staging_folder(folder);
    if (std::ranges::find(outputs_, local, &Output::local) == outputs_.end()) {
      outputs_.push_back({folder, local, false, {}});
    }
    return local;
  };
  for (std::string* file : {&run.metrics_file, &run.timings_file}) {
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
  if (remote::is_store_path(named.encoded_clips)) {
    run.encoded_clips = staging_folder(named.encoded_clips);
    outputs_.push_back({named.encoded_clips, run.encoded_clips, true, {}});
  }
  run.output_dir = staging_folder(run.output_dir);
}

void RunStores::begin(const std::string& config_text) {
  if (const auto stored = remote::read_store_path(local_.config_copy)) {
    remote::Store(*stored).write("config.yml", config_text);
  } else if (!local_.config_copy.empty()) {
    io::make_folder(local_.config_copy);
    io::write_file(fs::path(local_.config_copy) / "config.yml", config_text);
  }
  if (checkpoints_ && job_.world().is_alone()) {
    checkpoints_->pull();
  }
  for (const Output& output : outputs_) {
    io::make_folder(output.local);
    mirrors_.push_back(make_mirror(output.path, output.local, job_, output.except));
    // Of a run's files, only metrics are read again.
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
      return;  // the error that ended the run is more important
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

}  // namespace kinema::stores
