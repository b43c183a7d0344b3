#pragma once

#include <memory>

#include "kinema/config/config.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/job/job.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"

namespace kinema::resolve {

/// The text encoder with the tokens of redux_image after each prompt's (FLUX.1 Redux); the encoder
/// itself without `redux`. Throws an Error if the folder or the pictures do not fit.
std::shared_ptr<const encoders::TextEncoder> with_redux(
    const config::Config& config, std::shared_ptr<const encoders::TextEncoder> encoder,
    const networks::Sizes& network, const pjrt::Client& client, const Job& job);

}  // namespace kinema::resolve
