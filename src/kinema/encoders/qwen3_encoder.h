#pragma once

#include <memory>

#include "kinema/encoders/qwen3_states.h"
#include "kinema/encoders/text_encoder.h"

namespace kinema::encoders {

/// Qwen3 as in Z-Image's pipelines, see Qwen3States. Prompts have no weights: those of another
/// syntax than plain text are refused.
///
/// Files are opened and checked here. Throws an Error with the folder if a file is missing or does
/// not fit.
std::unique_ptr<TextEncoder> qwen3_text_encoder(const pjrt::Client& client, Qwen3Settings settings);

}  // namespace kinema::encoders
