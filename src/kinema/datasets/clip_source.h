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

/// Functions that open the models for encoding clips. Each model is opened when it is needed, and
/// closed immediately afterwards.
struct ClipEncoders {
  std::function<std::unique_ptr<encoders::Autoencoder>()> autoencoder;
  std::function<std::unique_ptr<encoders::TextEncoder>()> text;
  /// CLIP, whose tokens must have the width `image_dim`; null if the pipeline has none.
  std::function<std::unique_ptr<encoders::ImageEncoder>(int64_t image_dim)> image;
  /// The settings that determine latents (in addition to the clips) and text states; cached
  /// encodings are used for equal settings. Models are hashes of their files, which `models`
  /// caches.
  std::function<preparation::Settings(preparation::ContentIndex& models)> pixels_settings;
  std::function<preparation::Settings(preparation::ContentIndex& models)> text_settings;
};

/// A source of training samples from clips, in batches of `batch`. With `settings.kept`, clips and
/// captions that are not cached yet are encoded first, as a task, and no encoder stays in memory;
/// returns null if a stop is requested meanwhile. Else clips are encoded during the run. `report`:
/// the settings of the list of skipped clips. Throws an Error for sizes that the model or its
/// autoencoder does not support.
std::unique_ptr<data::Source> make_clip_source(const ClipSettings& settings,
                                               const networks::Sizes& model, int64_t batch,
                                               const ClipEncoders& makes, const ClipReport& report,
                                               const Job& job);

/// Bytes of host memory of `samples` samples of `bytes` each after all were read: clips that are
/// encoded during the run are cached in memory, up to a limit.
int64_t cached_bytes(const ClipSettings& settings, int64_t samples, int64_t bytes);

/// Text states of a caption, f32 or bf16 [t, d], from the cached ones if it has them.
encoders::TextStates caption_states(const ClipEncoders& makes,
                                    const std::optional<EncodingCache>& kept,
                                    const std::string& caption);

}  // namespace kinema::datasets
