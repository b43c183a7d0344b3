#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kinema/data/source.h"
#include "kinema/datasets/clip_report.h"
#include "kinema/datasets/clips.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_encoder.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/job/job.h"
#include "kinema/networks/network.h"
#include "kinema/preparation/content_index.h"
#include "kinema/preparation/shard_folder.h"

namespace kinema::datasets {

/// How the models are opened that make samples of clips. Each is opened when it is needed, and
/// closed as soon as it is not.
struct ClipEncoders {
  std::function<std::unique_ptr<encoders::Autoencoder>()> autoencoder;
  std::function<std::unique_ptr<encoders::TextEncoder>()> text;
  /// CLIP, whose tokens must be so wide; null where the pipeline has none.
  std::function<std::unique_ptr<encoders::ImageEncoder>(int64_t image_dim)> image;
  bool image_condition = false;  // samples hold the condition of an image-to-video model
  /// What decides latents, and text states, beside the clips: encodings that are kept are those of
  /// the same settings. Of models, hashes of their files, which `models` remembers.
  std::function<preparation::Settings(preparation::ContentIndex& models)> pixels_settings;
  std::function<preparation::Settings(preparation::ContentIndex& models)> text_settings;
};

/// Clips as training samples, of which `batch` make a batch. With `settings.kept`, what is not kept
/// yet is encoded first, as a task, and no encoder stays in memory; null when the job is told to
/// stop meanwhile. Else clips are encoded while the run goes. `report`: where it is written which
/// clips are left out. Throws an Error for sizes that the model or its autoencoder does not take.
std::unique_ptr<data::Source> make_clip_source(const ClipSettings& settings,
                                               const networks::Sizes& model, int64_t batch,
                                               const ClipEncoders& makes, const ClipReport& report,
                                               const Job& job);

/// Bytes of the host's memory that `samples` of `bytes` each take once all were read: clips that
/// are encoded while the run goes stay in memory, up to a limit.
int64_t kept_in_memory(const ClipSettings& settings, int64_t samples, int64_t bytes);

/// Text states of a caption, f32 or bf16 [t, d], from those that are kept where there are such.
encoders::TextStates caption_states(const ClipEncoders& makes,
                                    const std::optional<KeptEncodings>& kept,
                                    const std::string& caption);

}  // namespace kinema::datasets
