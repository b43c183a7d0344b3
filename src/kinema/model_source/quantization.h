#pragma once

#include <optional>

#include "kinema/config/config.h"
#include "kinema/nn/quantized.h"

namespace kinema::model_source {

/// The quantization of the transformer's products; Mode::NONE without use_qwix_quantization. Throws
/// an Error that names the key for an invalid pattern or calibration, or a missing mode.
nn::Quantization quantization_options(const config::ModelConfig& keys);

/// The dtype of stored weights; nothing: floats.
std::optional<DType> weights_storage(config::WeightsStorage given);

}  // namespace kinema::model_source
