#pragma once

#include <string_view>

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// Elementwise functions between layers.
enum class Activation : uint8_t { NONE, SILU, GELU, RELU, TANH, SIGMOID, MISH, RELU2, SWIGLU };

/// By its name in configurations: none, silu, gelu, relu, tanh, sigmoid, mish, relu2, swiglu.
/// Throws an Error that lists them for another.
Activation activation_from_string(std::string_view name);

/// silu: x sigmoid(x), in half types rounded as `sigmoid` is; gelu: its tanh form; mish: x
/// tanh(softplus(x)); relu2: max(x, 0)^2; swiglu: silu(a) b of the halves a, b of the last axis,
/// which becomes half as long.
Tensor activate(Activation how, Tensor x);

/// 1 / (1 + e^-x). In a half type every operation rounds its result, as in JAX programs on CPUs,
/// unless the compiler keeps F32 between them (xla_allow_excess_precision).
Tensor sigmoid(Tensor x);

/// log(1 + e^x), without overflow.
Tensor softplus(Tensor x);

/// sign(x) log(1 + |x|), which compresses large magnitudes, and its inverse (arXiv:2301.04104).
Tensor symlog(Tensor x);
Tensor symexp(Tensor x);

}  // namespace kinema::nn
