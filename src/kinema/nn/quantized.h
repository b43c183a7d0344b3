#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/ops.h"

/// Matrix products of narrow codes, int8 or float8, in place of floats (quantization-aware training
/// as Google's qwix does it: scales found anew at each use, gradients straight through the
/// rounding).
namespace kinema::nn {

/// True for the dtypes of codes: S8 and the two of f8.
inline bool is_codes(DType dtype) { return dtype == DType::S8 || is_f8(dtype); }

/// The magnitude that the largest code stands for, for integers with one half: 127.5 (S8), 448
/// (F8E4M3FN), 57344 (F8E5M2). Throws an Error for another dtype.
double code_bound(DType codes);

/// Up to which magnitude codes reach: `limit`. Larger values are clamped, and get no gradient.
struct Calibration {
  enum class Method { ABSMAX, RMS, FIXED };
  Method method = Method::ABSMAX;
  /// ABSMAX, RMS: times the largest magnitude, the root mean square. FIXED: the limit itself.
  double factor = 1.0;
  /// False where no value can lie beyond the limit.
  bool clips() const { return method != Method::ABSMAX || factor < 1.0; }
  bool operator==(const Calibration&) const = default;
};

/// Reads `absmax`, `absmax,f`, `rms,f`, `fixed,b` or `fixed,-b,b`. Throws an Error for another
/// text, and with the reason for ranges that are not symmetric, `minmax` and `fixed,a,b`: they need
/// zero points, which codes of float8 do not have.
Calibration calibration(std::string_view text);

/// x ~ values scale.
struct Codes {
  Tensor values;  // x's shape, S8, F8E4M3FN or F8E5M2
  Tensor scale;   // x's dtype and rank; size 1 along the axes that share one
  Tensor limit;   // the same: calibrated, the magnitude that stands for the largest code
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
  /// Incoming gradients become these codes too, with one scale a tensor; nothing: they stay floats.
  std::optional<DType> gradient_codes = {};
  /// One scale a tensor; else one for each row of x and each output of the weight.
  bool per_tensor = false;
  Calibration weight = {};
  Calibration activation = {};
  Calibration gradient = {};
  /// Without gradient_codes: gradients multiply with the operands themselves, else with what their
  /// codes stand for.
  bool original_residuals = false;
  bool operator==(const QuantizedProduct&) const = default;
};

/// x [..., in] times w [out, in] transposed, of one dtype, -> [..., out] in it:
///
///   y = (sum over in of x_codes w_codes) x_scale w_scale
///
/// sums in S32 or as the compiler does f8, each step rounded to the dtype. Straight-through
/// gradients, 0 beyond the limits. `x_axes`: the axes of x that share a scale, "in" among them.
Tensor quantized_linear(Tensor x, Tensor w, const QuantizedProduct& how, Precision precision);

/// The same with a weight that is stored as codes, w [out, in] with `scale` [out] in x's dtype;
/// only x has a gradient, by those codes. They have to be of the dtype that `how` asks for, one
/// scale an output: stored_codes_fit.
Tensor quantized_linear_of_codes(Tensor x, Tensor codes, Tensor scale, const QuantizedProduct& how,
                                 Precision precision);
bool stored_codes_fit(DType codes, const QuantizedProduct& how);

/// The same as a convolution is quantized whose kernel is its stride, over patches x [b, s, in]:
/// one scale a sample, gradients that are not cut beyond the limits, nor multiplied with the
/// operands themselves, and codes of gradients that are those of the operands.
Tensor quantized_patches(Tensor x, Tensor w, const QuantizedProduct& how, Precision precision);

/// dot_general of two activations.
Tensor quantized_dot(Tensor a, Tensor b, const DotDims& dims, const QuantizedProduct& how,
                     Precision precision);

/// Which products of a network are quantized, and how: the modes of MaxDiffusion's
/// `quantization`.
struct Quantization {
  enum class Mode {
    NONE,
    INT8,      // int8, a scale a channel; gradients are floats
    FP8,       // float8_e4m3fn, a scale a channel; gradients are floats
    FP8_FULL,  // one scale a tensor, calibrated; gradients are float8_e5m2
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

  /// How products are done where the path matches.
  QuantizedProduct product() const;
};

}  // namespace kinema::nn
