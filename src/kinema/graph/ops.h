#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/graph/tensor.h"

/// The public operations. There is no implicit dtype conversion: operands of one op must have the
/// same dtype, and `convert` changes it. Binary arithmetic broadcasts as in NumPy. Every function
/// throws an Error with op and shapes if they do not fit.
namespace kinema {

// ---- Leaves (ops/leaf.cpp) -----------------------------------------------------------------

/// A tensor with every element `value`, converted to the dtype.
Tensor constant(Graph& graph, double value, Shape shape);
/// A tensor from raw little-endian bytes, outermost axis first; `bytes.size() == shape.bytes()`.
Tensor constant(Graph& graph, Shape shape, std::span<const std::byte> bytes);
Tensor constant_f32(Graph& graph, Dims dims, std::span<const float> values);
/// 0, 1, 2, ... along one axis.
Tensor iota(Graph& graph, Shape shape, Axis axis);
Tensor zeros_like(Tensor x);
Tensor ones_like(Tensor x);

// ---- Elementwise (ops/elementwise.cpp, ops/compare.cpp) ------------------------------------

Tensor operator-(Tensor x);
Tensor exp(Tensor x);
Tensor log(Tensor x);
Tensor sqrt(Tensor x);
Tensor rsqrt(Tensor x);
Tensor tanh(Tensor x);
Tensor sin(Tensor x);
Tensor cos(Tensor x);
/// 1 / (1 + exp(-x))
Tensor logistic(Tensor x);
Tensor erf(Tensor x);
Tensor abs(Tensor x);
Tensor sign(Tensor x);
Tensor floor(Tensor x);
/// Rounds to the nearest integer, ties to even.
Tensor round_even(Tensor x);

Tensor operator+(Tensor a, Tensor b);
Tensor operator-(Tensor a, Tensor b);
Tensor operator*(Tensor a, Tensor b);
Tensor operator/(Tensor a, Tensor b);
/// Where a and b are equal, each gets half of the gradient.
Tensor maximum(Tensor a, Tensor b);
Tensor minimum(Tensor a, Tensor b);
/// a to the power b; the gradient for b needs a > 0.
Tensor pow(Tensor a, Tensor b);
/// Remainder with the sign of a.
Tensor remainder(Tensor a, Tensor b);

Tensor operator+(Tensor a, double b);
Tensor operator+(double a, Tensor b);
Tensor operator-(Tensor a, double b);
Tensor operator-(double a, Tensor b);
Tensor operator*(Tensor a, double b);
Tensor operator*(double a, Tensor b);
Tensor operator/(Tensor a, double b);
Tensor operator/(double a, Tensor b);
Tensor maximum(Tensor a, double b);
Tensor minimum(Tensor a, double b);

/// Bitwise on integers, logical on pred (`!x` tests whether a Tensor is empty).
Tensor operator&(Tensor a, Tensor b);
Tensor operator|(Tensor a, Tensor b);
Tensor operator^(Tensor a, Tensor b);
Tensor logical_not(Tensor a);
Tensor shift_left(Tensor a, Tensor b);
Tensor shift_right_logical(Tensor a, Tensor b);

enum class Comparison { EQ, NE, LT, LE, GT, GE };
/// pred of the broadcast shape.
Tensor compare(Tensor a, Comparison how, Tensor b);
Tensor compare(Tensor a, Comparison how, double b);
/// pred: neither infinite nor NaN.
Tensor is_finite(Tensor x);
/// `on_true` where `which` (pred) is true, else `on_false`; the three broadcast.
Tensor select(Tensor which, Tensor on_true, Tensor on_false);

/// Another element type; rounds to nearest even. The gradient converts back.
Tensor convert(Tensor x, DType dtype);
/// The same bits as another dtype of the same width (no gradient).
Tensor bitcast(Tensor x, DType dtype);

// ---- Shape (ops/reshape.cpp, ops/slice.cpp, ops/concatenate.cpp) ---------------------------

/// The same elements in row-major order; one size may be -1.
Tensor reshape(Tensor x, Dims dims);
/// Result axis i is x's axis `order[i]`.
Tensor transpose(Tensor x, std::vector<int64_t> order);
/// Repeats along axes of size 1 and along new leading axes, as NumPy's broadcast_to.
Tensor broadcast_to(Tensor x, Dims dims);
/// x's axis i becomes axis `axes[i]` of the result; other result axes repeat x.
Tensor broadcast_in_dim(Tensor x, Dims dims, std::vector<int64_t> axes);
/// A new axis of size 1 at `axis`.
Tensor expand_dims(Tensor x, Axis axis);
/// Removes an axis of size 1.
Tensor squeeze(Tensor x, Axis axis);

/// Elements start, start + stride, ... of one axis; `size` results.
Tensor slice(Tensor x, Axis axis, int64_t start, int64_t size, int64_t stride = 1);
/// `parts` equal slices along an axis.
std::vector<Tensor> split(Tensor x, Axis axis, int64_t parts);
/// Adds `low` and `high` elements of `value` around one axis, and `interior` between neighbours.
Tensor pad(Tensor x, Axis axis, int64_t low, int64_t high, double value = 0.0,
           int64_t interior = 0);
Tensor reverse(Tensor x, Axis axis);
Tensor concatenate(std::vector<Tensor> xs, Axis axis);
/// `size` elements of one axis from a runtime start (scalar integer, clamped to fit).
Tensor dynamic_slice(Tensor x, Axis axis, Tensor start, int64_t size);
/// x with `update` written at a runtime start on one axis; the sizes of all other axes are equal.
Tensor dynamic_update_slice(Tensor x, Axis axis, Tensor start, Tensor update);
/// Rows of `table` [n, ...] chosen by integer `ids`, clamped to 0 .. n-1: result is [ids..., ...].
Tensor take(Tensor table, Tensor ids);

// ---- Reductions (ops/reduce.cpp) -----------------------------------------------------------

/// Over the given axes, which disappear; no axes = all. Sums of bf16 / f16 accumulate in f32.
Tensor sum(Tensor x, std::vector<int64_t> axes = {}, bool keep_dims = false);
Tensor mean(Tensor x, std::vector<int64_t> axes = {}, bool keep_dims = false);
/// The gradient goes to the largest (smallest) elements in equal shares.
Tensor max(Tensor x, std::vector<int64_t> axes = {}, bool keep_dims = false);
Tensor min(Tensor x, std::vector<int64_t> axes = {}, bool keep_dims = false);
/// On pred: true where all / any of the elements are.
Tensor all(Tensor x, std::vector<int64_t> axes = {});
Tensor any(Tensor x, std::vector<int64_t> axes = {});
/// Index (s32) of the first largest element along an axis.
Tensor argmax(Tensor x, Axis axis);

// ---- Order (ops/sort.cpp) ------------------------------------------------------------------

/// Positions (s32) along an axis, of the smallest element first; equal elements keep their order.
/// No gradient.
Tensor argsort(Tensor x, Axis axis);
/// x [n] from the smallest element to the largest. A gradient goes to where each came from.
Tensor sorted(Tensor x);

// ---- Products (ops/dot.cpp, ops/convolution.cpp) -------------------------------------------

/// XLA's matmul precision: DEFAULT is the fastest the device has (bf16 passes on TPU, TF32 on GPU).
enum class Precision { DEFAULT, HIGH, HIGHEST };

struct DotDims {
  std::vector<int64_t> lhs_contract, rhs_contract;
  std::vector<int64_t> lhs_batch = {}, rhs_batch = {};
};
/// Result axes: batch, rest of a, rest of b. `out` is the result and accumulation dtype: the
/// operands' dtype; F32 for bf16 / f16 operands; S32 for s8; BF16, F16 or F32 for f8, where a and b
/// may be different f8 dtypes. Products of s8 and f8 have no gradient.
Tensor dot_general(Tensor a, Tensor b, DotDims dims, Precision precision = Precision::DEFAULT);
Tensor dot_general(Tensor a, Tensor b, DotDims dims, Precision precision, DType out);
/// The gradients of dot_general(a, b, dims) for a and for b: dy times the other operand. Only the
/// shape of the differentiated operand is needed. Dtypes as for dot_general, applied to dy and the
/// operand.
Tensor dot_gradient_of_a(Tensor dy, const Shape& a, Tensor b, const DotDims& dims,
                         Precision precision, DType out);
Tensor dot_gradient_of_b(Tensor dy, Tensor a, const Shape& b, const DotDims& dims,
                         Precision precision, DType out);
/// a [..., m, k] times b [..., k, n]; leading axes equal.
Tensor matmul(Tensor a, Tensor b, Precision precision = Precision::DEFAULT);
/// Einstein summation of two operands, `bsd,de->bse`; every letter of the result once.
Tensor einsum(std::string_view spec, Tensor a, Tensor b, Precision precision = Precision::DEFAULT);

struct ConvolutionAttrs {
  Dims strides;                                  // one per spatial axis
  std::vector<std::pair<int64_t, int64_t>> pad;  // low, high; may be negative
  Dims lhs_dilation = {}, rhs_dilation = {};     // empty = 1
  int64_t groups = 1;
  Precision precision = Precision::DEFAULT;
};
/// x [b, c, spatial...], w [o, c / groups, spatial...] -> [b, o, spatial...], as torch's convNd.
Tensor convolution(Tensor x, Tensor w, ConvolutionAttrs attrs);

// ---- Annotations for the compiler and the backward pass (ops/annotate.cpp) ---------------------

/// x; no gradient flows through it.
Tensor stop_gradient(Tensor x);
/// x under a name that remat policies refer to (`attn_output`, `ffn_activation`, ...).
Tensor named(Tensor x, std::string_view name);
/// x with a sharding constraint, which its gradient gets too.
Tensor with_sharding(Tensor x, Sharding sharding);
/// x in device memory, for an argument in host memory (Memory) or a part of one. Returns x if the
/// device has one memory.
Tensor fetch(Tensor x);
/// x in host memory, for a result of the program that goes there (EmitOptions).
Tensor offload(Tensor x);
/// The same values behind an optimization barrier (so recomputation survives CSE).
std::vector<Tensor> optimization_barrier(std::vector<Tensor> xs);

// ---- Random numbers (ops/random.cpp), counter-based: a pure function of key and position -----

/// u32 bits of a shape; `key` is u32[2]. The same function as core/threefry.h: element pair i of
/// the flattened result (2i, 2i+1) is threefry2x32(key, {i, i >> 32}).
Tensor random_bits(Tensor key, Dims dims);
/// Another key for a named purpose, threefry2x32(key, FNV-1a of the purpose as two words, low word
/// first), or for a runtime position (u32 scalar), threefry2x32(key, {position, 0}). So
/// fold_in(fold_in(seed, purpose), position) is core's random_key(seed, purpose, position).
Tensor fold_in(Tensor key, std::string_view purpose);
Tensor fold_in(Tensor key, Tensor position);
/// Uniform in [0, 1), 24 random bits, F32: element i is the i-th RandomStream(key).uniform().
Tensor random_uniform(Tensor key, Dims dims);
/// Standard normal by Box-Muller, F32: element i is the i-th RandomStream(key).normal() up to
/// rounding. Fewer than 2^32 elements.
Tensor random_normal(Tensor key, const Dims& dims);

// ---- Composed (ops/composed.cpp) -----------------------------------------------------------

/// Over the last axis, shifted by the maximum; computed in F32, result in x's dtype.
Tensor softmax(Tensor x);
/// The same, rounded once to `out`. The gradient reads only this result, so a bf16 result is all
/// that is kept for the backward pass.
Tensor softmax(Tensor x, DType out);
/// x * logistic(x)
Tensor silu(Tensor x);
/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
Tensor gelu_tanh(Tensor x);
/// 0.5 x (1 + erf(x / sqrt(2)))
Tensor gelu_erf(Tensor x);
/// a gelu_erf(b) with a, b the two halves of the last axis (N. Shazeer, "GLU Variants Improve
/// Transformer", 2020).
Tensor geglu(Tensor x);
/// (x - mean) / sqrt(var + epsilon) over the last axis, without scale and shift; computed in F32,
/// result in x's dtype.
Tensor layer_norm(Tensor x, double epsilon);
/// x / sqrt(mean(x^2) + epsilon) over the last axis, without scale; computed in F32, result in x's
/// dtype.
Tensor rms_norm(Tensor x, double epsilon);
Tensor square(Tensor x);

}  // namespace kinema
