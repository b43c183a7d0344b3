#pragma once

#include "kinema/io/json.h"
#include "kinema/nn/quantized.h"

namespace kinema::verification {

/// The mode that a case is of, with every module quantized.
nn::Quantization quantization_of(const io::Json& about);

}  // namespace kinema::verification
