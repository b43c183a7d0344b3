#pragma once

#include <memory>

#include "kinema/encoders/t5_states.h"
#include "kinema/encoders/text_encoder.h"

namespace kinema::encoders {

/// UMT5 as in Wan's pipelines: prompts are cleaned, tokenized and encoded with masked padding; rows
/// after a prompt's end are zero. Weights of prompts: see encode_weighted.
///
/// Files are opened and checked here, see T5States; `clean` and `masked` are used as given.
/// Throws an Error with the folder if a file is missing or does not fit.
std::unique_ptr<TextEncoder> umt5_text_encoder(const pjrt::Client& client, T5Settings settings);

}  // namespace kinema::encoders
