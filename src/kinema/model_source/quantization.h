#pragma once

#include <optional>

#include "kinema/config/config.h"
#include "kinema/nn/quantized.h"

namespace kinema::model_source {

/// How the transformer's products are quantized; Mode::NONE without use_qwix_quantization. Throws
/// an Error naming the key for a pattern or a calibration that cannot be read, or a missing mode.
nn::Quantization quantization_options(const config::ModelConfig& keys);

/// What weights are stored as; nothing: as floats.
std::optional<DType> weights_storage(config::WeightsStorage given);

}  // namespace kinema::model_source
