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
#include "kinema/networks/with_text.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/settings.h"
#include "kinema/sample/inner_text_encoder.h"
#include "kinema/sample/output.h"
#include "kinema/sample/pipeline.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/compute_weights.h"

namespace kinema::jobs {

/// The parts of a training run that its videos depend on.
struct VideoModel {
  networks::Network network;
  networks::Network trained;  // the same, or with the text encoders that train with it
  model_source::Expert expert;
  nn::ModelOptions options;                     // sharded over the devices
  bool average = false;                         // the run has EMA weights
  bool adapter = false;                         // it trains an adapter
  bool control = false;                         // it trains a ControlNet, which `network` has
  std::vector<networks::InnerText> texts = {};  // those of `trained`
  std::filesystem::path run;
  std::filesystem::path checkpoints;  // the run's checkpoint folder
};

/// Videos of the configured prompts with the current weights, equal to those that `kinema generate`
/// makes from the checkpoint of the same step.
class RunVideos {
 public:
  /// Computes nothing yet. Throws an Error if the videos cannot be made. `flags`: the given
  /// compiler flags, for the videos' metadata. Several processes make the videos together, over the
  /// run's devices; process 0 decodes and writes them.
  RunVideos(const resolve::Settings& loaded, const runtime::Devices& devices, VideoModel model,
            io::Json flags, Job job);

  struct Made {
    sample::Generated generated;  // without frames in processes that do not write
    sample::OutputFiles files;
    double seconds = 0;
  };
  /// Makes the videos after `steps` completed steps and writes them to samples/STEPS of the run.
  /// Returns nothing if a stop is requested before the sampler's last step. `state` returns the
  /// state of the network with index `place`.
  std::optional<Made> make(const std::function<training::StateView(int64_t place)>& state,
                           int64_t steps);
  /// True if all processes were at the same point when `make` threw, so that the run can continue.
  bool is_together() const { return together_; }
  const std::string& first_prompt() const { return request_.prompts.front(); }

 private:
  bool writes() const { return job_.world().is_first(); }
  int64_t network_parameters() const;
  model_source::SelectedModel model_at(int64_t steps) const;
  std::unique_ptr<sample::Pipeline> pipeline_at(int64_t steps);
  void agree_on_error(const std::string& problem);

  resolve::Settings loaded_;
  runtime::Devices devices_;
  VideoModel model_;
  io::Json flags_;
  Job job_;
  training::ComputeWeights weights_;
  sample::PipelineParts parts_;
  // Of text encoders that are trained; else empty.
  std::shared_ptr<sample::InnerTextEncoder> text_;
  std::optional<training::ComputeWeights> text_weights_;
  std::shared_ptr<sample::StepPrograms> programs_;
  sample::GenerateRequest request_;
  bool together_ = true;
};

/// The videos as animated images for TensorBoard, `samples/000_words_of_the_prompt`; tall frames
/// are made smaller, tiny ones larger.
std::vector<metrics::EventImage> pictures(const RunVideos::Made& made, double fps);

/// A run's first video from before its training, and the similarity of a later one.
class BeforeTraining {
 public:
  struct Similarity {
    double ssim = 0;
    double psnr = 0;  // decibels; infinite for equal videos
  };

  /// Reads the video that an earlier part of the run saved for this prompt.
  BeforeTraining(const std::filesystem::path& run, const std::string& prompt, const Job& job);

  bool is_known() const { return frames_.has_value(); }
  /// Saves the first of these videos, also for a resumed run.
  void keep(const RunVideos::Made& made);
  /// The similarity of the first of these videos; nothing if the sizes differ.
  std::optional<Similarity> compare(const RunVideos::Made& made) const;

 private:
  std::filesystem::path file_;
  std::string prompt_;
  std::optional<HostArray> frames_;
};

}  // namespace kinema::jobs
