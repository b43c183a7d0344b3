#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/metrics/tensorboard.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/networks/network.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/settings.h"
#include "kinema/sample/output.h"
#include "kinema/sample/pipeline.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/working_weights.h"

namespace kinema::jobs {

/// What of a training run its videos depend on.
struct VideoModel {
  networks::Network network;
  model_source::Expert expert;
  nn::ModelOptions options;  // placed on the devices
  bool average = false;      // the run keeps an average of its parameters
  bool adapter = false;      // it trains one
  std::filesystem::path run;
  std::filesystem::path checkpoints;  // where the run's lie
};

/// Videos of the configured prompts by the weights that are being trained: those that `kinema
/// generate` makes from the checkpoint of the same step.
class RunVideos {
 public:
  /// Computes nothing yet. Throws an Error where the videos could not be made. `flags`: the
  /// compiler's that were given, for the videos' metadata. Of several processes all make the
  /// videos together, over the run's devices; process 0 decodes and writes them.
  RunVideos(const resolve::Settings& loaded, const runtime::Devices& devices, VideoModel model,
            io::Json flags, Job job);

  struct Made {
    sample::Generated generated;  // without frames in processes that do not write
    sample::OutputFiles files;
    double seconds = 0;
  };
  /// Makes the videos after `steps` completed steps and writes them to samples/STEPS of the run.
  /// Nothing where the job is told to stop before the sampler's last step.
  /// `state` is asked for that of a network by its place in the run.
  std::optional<Made> make(const std::function<training::StateView(int64_t place)>& state,
                           int64_t steps);
  /// Whether what `make` has thrown leaves all processes at the same point, so that the run can go
  /// on.
  bool is_together() const { return together_; }
  const std::string& first_prompt() const { return request_.prompts.front(); }

 private:
  bool writes() const { return job_.world().is_first(); }
  model_source::ModelToUse model_at(int64_t steps) const;
  std::unique_ptr<sample::Pipeline> pipeline_at(int64_t steps);
  void find_out_together(const std::string& problem);

  resolve::Settings loaded_;
  runtime::Devices devices_;
  VideoModel model_;
  io::Json flags_;
  Job job_;
  training::WorkingWeights weights_;
  sample::PipelineParts parts_;
  std::shared_ptr<sample::StepPrograms> programs_;
  sample::GenerateRequest request_;
  bool together_ = true;
};

/// The videos as animated pictures for TensorBoard, `samples/000_words_of_the_prompt`; frames are
/// made smaller where they are tall, larger where they are tiny.
std::vector<metrics::EventImage> pictures(const RunVideos::Made& made, double fps);

/// The first video of a run before its training, and how alike a later one is.
class BeforeTraining {
 public:
  struct Likeness {
    double ssim = 0;
    double psnr = 0;  // decibels; infinite for equal videos
  };

  /// Reads what an earlier part of the run kept for this prompt.
  BeforeTraining(const std::filesystem::path& run, const std::string& prompt, const Job& job);

  bool is_known() const { return frames_.has_value(); }
  /// Keeps the first of these videos, also for when the run is resumed.
  void keep(const RunVideos::Made& made);
  /// Of the first of these videos; nothing where its sizes are others.
  std::optional<Likeness> compare(const RunVideos::Made& made) const;

 private:
  std::filesystem::path file_;
  std::string prompt_;
  std::optional<HostArray> frames_;
};

}  // namespace kinema::jobs
