#pragma once

#include <memory>
#include <optional>

#include "kinema/config/config.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/image_encoder.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/job/job.h"
#include "kinema/model_source/text_adapters.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/array.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/text/hashed.h"

/// The text encoder and the autoencoder of a configuration.
namespace kinema::resolve {

/// The latent layout of a network's autoencoder, without opening it.
encoders::LatentLayout latent_layout(const config::Config& config, const networks::Sizes& model);

/// Text widths that a network expects; 0: any width, or no pooled text.
struct TextWidths {
  int64_t states = 0;
  int64_t pooled = 0;
};
TextWidths text_widths(const networks::Sizes& network);
/// The number of text tokens from a configuration's encoder.
int64_t text_tokens(const config::Config& config, const networks::Sizes& network);
text::HashedEncoder hashed_encoder(const config::Config& config, const TextWidths& widths);

/// The scale of latents for an autoencoder's file, which does not hold it: that of the network's
/// family. Nothing for a folder, and without a network.
std::optional<double> latent_scale(const config::Config& config);
/// What distinguishes the configuration's autoencoder: the path of its weights, or the numbers of
/// its formula.
std::string autoencoder_text(const config::Config& config);
/// The configuration's autoencoder and text encoder, from the pipeline's folder or from their own
/// folders. Throw an Error that names what is missing.
std::unique_ptr<encoders::Autoencoder> make_autoencoder(const config::Config& config,
                                                        const runtime::Devices& devices);
/// The pipeline's CLIP image encoder; null if it has none. Throws an Error if the width of its
/// tokens is not `image_dim` (0: any).
std::unique_ptr<encoders::ImageEncoder> make_image_encoder(const config::Config& config,
                                                           const sample::PipelineFolder& pipeline,
                                                           int64_t image_dim,
                                                           const pjrt::Client& client);
/// Cached text states must not depend on the batch, so captions, unlike prompts, are encoded one by
/// one.
enum class TextUse { PROMPTS, CAPTIONS };
std::unique_ptr<encoders::TextEncoder> make_text_encoder(
    const config::Config& config, const TextWidths& widths, const pjrt::Client& client,
    const Job& job, TextUse use = TextUse::PROMPTS,
    const model_source::TextAdapters& adapters = {});

/// Captions as token ids, for a network that runs its text encoders (networks::with_text).
std::unique_ptr<encoders::TextEncoder> make_ids_encoder(const config::Config& config,
                                                        const networks::Sizes& network,
                                                        const pjrt::Client& client, const Job& job);

}  // namespace kinema::resolve
