#pragma once

#include <memory>

#include "kinema/encoders/t5_states.h"
#include "kinema/encoders/text_encoder.h"

namespace kinema::encoders {

/// UMT5 as Wan's pipelines use it: the prompt is cleaned, tokenized, encoded under its mask; rows
/// behind its end are zero.
///
/// Files are opened and checked here, see T5States; `clean` and `masked` of the settings stay as
/// they are. Throws an Error naming the folder and what is wrong with it.
std::unique_ptr<TextEncoder> umt5_text_encoder(const pjrt::Client& client, T5Settings settings);

}  // namespace kinema::encoders
