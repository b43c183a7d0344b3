#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kinema/encoders/image_encoder.h"
#include "kinema/encoders/image_processor.h"
#include "kinema/models/clip/config.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/environment.h"
#include "kinema/runtime/program.h"

namespace kinema::encoders {

struct ClipOptions {
  /// Of weights and activations; norms are f32.
  DType dtype = DType::F32;
  runtime::ProgramOptions program = {};
  media::Rounding rounding = media::Rounding::PIL;  // ImageProcessor
};

/// CLIP's vision model: an image as the tokens of the second-to-last layer. The program is compiled
/// and the parameters are loaded for the first image; after release() the next image loads the
/// parameters again. Thread-safe.
class ClipEncoder final : public ImageEncoder {
 public:
  /// Reads and checks the `image_encoder` and `image_processor` folders. Throws an Error if a file
  /// or tensor is missing or does not fit, or if the processor's images have another size than the
  /// model's.
  ClipEncoder(const pjrt::Client& client, const std::filesystem::path& model,
              const std::filesystem::path& processor, const ClipOptions& options = {});

  Shape shape() const override;
  HostArray encode(const HostArray& image) const override;
  void release() const override {
    const std::scoped_lock lock(mutex_);
    params_.clear();
    runtime::release_free_memory();
  }

  /// For the model's input, f32 [3, image_size, image_size]: the tokens and the input of the
  /// layers, f32 [n, d] each.
  struct Tokens {
    HostArray tokens, embeddings;
  };
  Tokens run(const HostArray& pixels) const;
  const ImageProcessor& processor() const { return processor_; }
  const clip::VisionConfig& config() const { return config_; }

 private:
  ImageProcessor processor_;
  clip::VisionConfig config_;
  pjrt::Client client_;
  std::filesystem::path folder_;
  std::string prefix_;
  ClipOptions options_;
  mutable std::mutex mutex_;  // guards the members below
  mutable std::vector<pjrt::Buffer> params_;
  mutable std::unique_ptr<runtime::Program> program_;
};

}  // namespace kinema::encoders
