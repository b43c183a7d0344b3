#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kinema/adapters/lora_part.h"
#include "kinema/core/shape.h"
#include "kinema/io/safetensors.h"

/// The formulas by which an adapter's tensors change a weight W [out, in, kernel...], other than a
/// plain low-rank product: those of LyCORIS (arXiv:2309.14859) and of PEFT.
namespace kinema::adapters {

/// The tensors that a file contains for one module, by LoraPart; null if absent.
using LoraParts = std::array<const io::TensorView*, kLoraParts>;

/// The sizes of W as far as an adapter's tensors imply them; 0 is unknown.
struct WeightSize {
  int64_t rows = 0;     // out
  int64_t columns = 0;  // in times the kernel's size
  int64_t inputs = 0;   // in
};

/// Some rows of a weight, in f32, row-major.
struct WeightRows {
  int64_t first = 0;  // in the weight that the file describes
  int64_t count = 0;
  int64_t inputs = 0;       // in
  std::span<float> values;  // [count, in, kernel...]

  int64_t columns() const { return static_cast<int64_t>(values.size()) / count; }
  int64_t kernel() const { return columns() / inputs; }
};

/// One formula for dW, the difference of the weight. All functions expect the tensors that `size`
/// accepts.
struct LoraMethod {
  std::string_view name;
  std::span<const LoraPart> marks;  // a module with one of these parts uses this method
  size_t axes = 0;                  // of the first mark's tensor; 0: any number
  std::span<const LoraPart> parts;  // all parts that it may have, besides alpha and biases
  /// The sizes of W. Throws an Error that names the tensor if one is missing or does not fit.
  WeightSize (*size)(const LoraParts& parts);
  /// The rank that divides alpha; 0 if alpha does not scale dW.
  int64_t (*rank)(const LoraParts& parts);
  /// The number of rows that can only be changed together: 1, or a block.
  int64_t (*block)(const LoraParts& parts);
  /// Replaces W by W + scale dW.
  void (*add)(const LoraParts& parts, float scale, WeightRows weight);
};

/// The method of a module with these parts; null for a plain low-rank product or full difference.
/// Throws an Error that names a tensor if the module mixes methods.
const LoraMethod* method_of(const LoraParts& parts);

/// True if the weight is rescaled to given norms after the change (DoRA, arXiv:2402.09353).
bool is_dora(const LoraParts& parts);

/// The name of the method for messages: `LoHa`, `DoRA`, `LoKr with DoRA`.
std::string_view method_name(const LoraMethod& method, const LoraParts& parts);

/// Throws an Error that names a tensor if DoRA's norms do not fit a weight of this size. Returns
/// true if they are of columns: then all rows are changed together.
bool norms_are_of_columns(const LoraParts& parts, const WeightSize& size);

/// Changes a weight: W + scale factor dW, factor being alpha / rank. With DoRA's norms m:
///
///   kohya's and ComfyUI's files (dora_scale):  W + scale (m V / |V| - W),  V = W + factor dW
///   PEFT's (lora_magnitude_vector):            m V / |V|,                  V = W + scale factor dW
///
/// |V| is the norm over all but the axis of m.
void change_weight(const LoraMethod& method, const LoraParts& parts, double factor, double scale,
                   WeightRows weight);

// ---- For the methods' files ----------------------------------------------------------------

/// The part's tensor; throws an Error that names another tensor of the module if it is missing.
const io::TensorView& need(const LoraParts& parts, LoraPart part);
/// The sizes of a tensor with all axes but the first joined; throws for one without elements or
/// with fewer than two axes.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
};
Matrix matrix_of(const io::TensorView& tensor);
/// Throws an Error with both tensors' shapes.
[[noreturn]] void misfit(const io::TensorView& a, const io::TensorView& b);
/// The value of a tensor of one number, of any type.
double number_of(const io::TensorView& tensor);
/// The tensor's values. Throws an Error with its name if one is not finite.
std::vector<float> finite_values(const io::TensorView& tensor);

/// A row-major matrix; `transposed`: as stored it is the transpose.
struct Operand {
  const float* values;
  bool transposed = false;
};
/// c[rows, columns] = factor a[rows, inner] b[inner, columns] + keep c
void product(int64_t rows, int64_t columns, int64_t inner, float factor, Operand a, Operand b,
             float keep, float* c);

/// out[i, n, k] = sum_m core[i, m, k] right[m, n]: a Tucker core [i, m, kernel...] and its right
/// factor, as a matrix [i, n k].
std::vector<float> core_times_right(const io::TensorView& core, const io::TensorView& right);

}  // namespace kinema::adapters
