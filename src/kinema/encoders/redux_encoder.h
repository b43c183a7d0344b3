#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/encoders/image_processor.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/models/clip/siglip.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"

/// FLUX.1 Redux: images as tokens after those of a prompt. Source: diffusers
/// FluxPriorReduxPipeline.
namespace kinema::encoders {

/// The folders of a Redux pipeline, and SigLIP's. Compiled and loaded for the first image.
/// Thread-safe.
class ReduxEncoder {
 public:
  /// `folder` has image_encoder, image_embedder and feature_extractor. Throws an Error if a file or
  /// tensor is missing or does not fit.
  ReduxEncoder(const pjrt::Client& client, const std::filesystem::path& folder,
               runtime::ProgramOptions program = {});

  /// f32 [n, d], the tokens of one image.
  Shape shape() const;
  /// Of u8 [h, w, 3] of any size: SigLIP's input f32 [3, s, s], its states f32 [n, d'] and the
  /// tokens f32 [n, d].
  struct Tokens {
    HostArray pixels, states, tokens;
  };
  Tokens encode(const HostArray& image) const;
  void release() const;

 private:
  ImageProcessor processor_;
  clip::VisionConfig siglip_;
  clip::ReduxConfig redux_;
  pjrt::Client client_;
  std::filesystem::path folder_;
  std::string prefix_;
  runtime::ProgramOptions options_;
  mutable std::mutex mutex_;  // guards the members below
  mutable std::vector<pjrt::Buffer> params_;
  mutable std::unique_ptr<runtime::Program> program_;
};

/// An image's tokens, and the factors of its states and of its pooled text.
struct ReduxImage {
  HostArray tokens;  // f32 [n, d]
  double scale = 1.0;
  double pooled_scale = 1.0;
};

/// The text encoder with the images' tokens after its states, [t + n, d]. As in diffusers the
/// result is the sum over the images of text and tokens, each times its factor. A negative prompt
/// gets zeros for tokens.
std::unique_ptr<TextEncoder> with_redux(std::shared_ptr<const TextEncoder> encoder,
                                        std::vector<ReduxImage> images);

}  // namespace kinema::encoders
