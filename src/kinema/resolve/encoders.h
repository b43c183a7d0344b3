#pragma once

#include <memory>

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

/// The text encoder and the autoencoder that a configuration names.
namespace kinema::resolve {

/// What the autoencoder of a network makes of pixels, where no autoencoder is opened.
encoders::LatentLayout latent_layout(const config::Config& config, const networks::Sizes& model);

/// Widths that a network expects of text; 0: any, and of pooled text none.
struct TextWidths {
  int64_t states = 0;
  int64_t pooled = 0;
};
TextWidths text_widths(const networks::Sizes& network);
/// Tokens of the text that a configuration's encoder gives a network.
int64_t text_tokens(const config::Config& config, const networks::Sizes& network);
text::HashedEncoder hashed_encoder(const config::Config& config, const TextWidths& widths);

/// The text encoder and autoencoder of a configuration, with models of the pipeline's folder or of
/// folders of their own. Throw an Error naming what is missing.
std::unique_ptr<encoders::Autoencoder> make_autoencoder(const config::Config& config,
                                                        const runtime::Devices& devices);
/// CLIP of a pipeline; null where it has none. Throws an Error when its tokens do not have the
/// width `image_dim` (0: any).
std::unique_ptr<encoders::ImageEncoder> make_image_encoder(const config::Config& config,
                                                           const sample::PipelineFolder& pipeline,
                                                           int64_t image_dim,
                                                           const pjrt::Client& client);
/// What is kept of a caption must not depend on which others were encoded with it, so that
/// captions, unlike prompts, never share an array.
enum class TextUse { PROMPTS, CAPTIONS };
std::unique_ptr<encoders::TextEncoder> make_text_encoder(
    const config::Config& config, const TextWidths& widths, const pjrt::Client& client,
    const Job& job, TextUse use = TextUse::PROMPTS,
    const model_source::TextAdapters& adapters = {});

}  // namespace kinema::resolve
