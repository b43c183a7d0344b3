#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/ops.h"

/// Matrix products of int8 or float8 codes instead of floats: quantization-aware training as in
/// Google's qwix, with scales computed at each use and straight-through gradients of the rounding.
namespace kinema::nn {

/// True for the dtypes of codes: S8, F8E4M3FN, F8E5M2.
inline bool is_code_dtype(DType dtype) { return dtype == DType::S8 || is_f8(dtype); }

/// The magnitude of the largest code, for integers plus one half: 127.5 (S8), 448 (F8E4M3FN), 57344
/// (F8E5M2). Throws an Error for another dtype.
double code_bound(DType codes);

/// The largest magnitude that codes represent: `limit`. Larger values are clamped, and get no
/// gradient.
struct Calibration {
  enum class Method { ABSMAX, RMS, FIXED };
  Method method = Method::ABSMAX;
  /// ABSMAX, RMS: the limit is this times the largest magnitude or the root mean square. FIXED: the
  /// limit.
  double factor = 1.0;
  /// False if no value can exceed the limit.
  bool clips() const { return method != Method::ABSMAX || factor < 1.0; }
  bool operator==(const Calibration&) const = default;
};

/// Reads `absmax`, `absmax,f`, `rms,f`, `fixed,b` or `fixed,-b,b`. Throws an Error for other text.
/// Its message gives the reason for ranges that are not symmetric, `minmax` and `fixed,a,b`: they
/// need zero points, which codes of float8 do not have.
Calibration calibration(std::string_view text);

/// x ~ values scale.
struct Codes {
  Tensor values;  // x's shape, S8, F8E4M3FN or F8E5M2
  Tensor scale;   // x's dtype and rank; size 1 along the axes that share one
  Tensor limit;   // x's dtype and rank: the calibrated magnitude of the largest code
};

/// Codes with one scale for all elements along `axes` (none: the whole tensor):
///
///   scale = limit / B, 1 where the limit is 0;  B = 127.5 (S8), 448 (F8E4M3FN), 57344 (F8E5M2)
///   values = x / scale, rounded to nearest even, within the codes' range
///
/// All in x's dtype, each operation rounded. No gradient passes.
Codes quantize(Tensor x, DType codes, const std::vector<int64_t>& axes, const Calibration& how);

/// values scale in the scale's dtype.
Tensor dequantize(const Codes& codes);

/// How one product is done.
struct QuantizedProduct {
  DType codes = DType::S8;
  /// Incoming gradients are quantized to these codes too, with one scale per tensor; empty: they
  /// stay floats.
  std::optional<DType> gradient_codes = {};
  /// One scale per tensor; if false, one per row of x and one per output of the weight.
  bool per_tensor = false;
  Calibration weight = {};
  Calibration activation = {};
  Calibration gradient = {};
  /// Without gradient_codes: gradients are multiplied by the original operands; if false, by the
  /// dequantized ones.
  bool original_residuals = false;
  bool operator==(const QuantizedProduct&) const = default;
};

/// Sums are in S32, for f8 in the compiler's dtype; each step is rounded to x's dtype.
/// Straight-through gradients, 0 beyond the limits. `x_axes`: the axes of x that share a scale,
/// "in" among them.
Tensor quantized_linear(Tensor x, Tensor w, const QuantizedProduct& how, Precision precision);

/// The same with a weight that is stored as codes, w [out, in] with `scale` [out] in x's dtype;
/// only x has a gradient, computed with those codes. They must have the dtype of `how` with one
/// scale per output: see stored_codes_fit.
Tensor quantized_linear_of_codes(Tensor x, Tensor codes, Tensor scale, const QuantizedProduct& how,
                                 Precision precision);
bool stored_codes_fit(DType codes, const QuantizedProduct& how);

/// The same for patches x [b, s, in], as qwix quantizes a convolution whose stride equals its
/// kernel size: one scale per sample; gradients are neither clipped at the limits nor multiplied by
/// the original operands; codes of gradients have the operands' dtype.
Tensor quantized_patches(Tensor x, Tensor w, const QuantizedProduct& how, Precision precision);

/// dot_general of two activations.
Tensor quantized_dot(Tensor a, Tensor b, const DotDims& dims, const QuantizedProduct& how,
                     Precision precision);

/// Which products of a network are quantized, and how: the modes of MaxDiffusion's `quantization`.
struct Quantization {
  enum class Mode {
    NONE,
    INT8,      // int8, one scale per channel; gradients are floats
    FP8,       // float8_e4m3fn, one scale per channel; gradients are floats
    FP8_FULL,  // one scale per tensor, calibrated; gradients are float8_e5m2
  };
  Mode mode = Mode::NONE;
  /// A Pattern (core/pattern.h) for the paths of modules, `blocks/attn1/query`.
  std::string module_path = ".*";
  /// FP8_FULL only.
  Calibration weight = {};
  Calibration activation = {};
  Calibration gradient = {};
  bool original_residuals = false;
  bool operator==(const Quantization&) const = default;

  /// How products are computed in modules that the path matches.
  QuantizedProduct product() const;
};

}  // namespace kinema::nn
