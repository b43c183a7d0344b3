#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "kinema/core/host_array.h"
#include "kinema/core/stopwatch.h"
#include "kinema/job/job.h"
#include "kinema/sample/denoiser.h"
#include "kinema/sample/latent_colors.h"

namespace kinema::jobs {

/// Pictures of a request while it is made.
struct PreviewOptions {
  int64_t every = 0;   // steps; 0: none
  double pause = 0.5;  // at least so many seconds between two
  /// Keeps the colors of each autoencoder, which are fitted once; empty: fitted for each model that
  /// is loaded.
  std::filesystem::path folder = {};
  /// u8 [h, w, 3]: what the step predicts of the first video of its batch, of its middle frame,
  /// with a pixel for each latent cell.
  std::function<void(const HostArray& picture)> show = {};
};

/// Makes previews by a fitted linear map of latents to colors (sample::fit_colors). What prevents
/// them is logged once, and does not stop the request.
class Previews {
 public:
  /// `about`: what distinguishes the autoencoder (resolve::autoencoder_text), by which its colors
  /// are kept; if it is the path of weights, so do their sizes and times.
  Previews(const PreviewOptions& options, const encoders::Autoencoder& autoencoder,
           const std::string& about, const Job& job);

  void after(const sample::DenoiseStep& step);

 private:
  const PreviewOptions& options_;
  const Job& job_;
  std::optional<sample::LatentColors> colors_;
  std::optional<Stopwatch> since_;
};

}  // namespace kinema::jobs
