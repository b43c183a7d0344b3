// The calls in the form of XLA's GPU compiler; workspace sizes were measured with cuDNN 9.23.
#include "kinema/kernels/gpu/cudnn_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/cudnn_call.h"
#include "kinema/kernels/gpu/generation.h"

namespace kinema::kernels {
namespace {

/// The log-sum-exp of a row without keys: so large that every weight becomes 0.
constexpr double kNoKeys = 1e38;

int64_t widest(std::string_view chip) {
  return gpu_generation(chip) == Generation::AMPERE ? 128 : 256;
}

/// Bytes for the f32 sums of dq, plus a number for each row. With a device the compiler asks cuDNN
/// and uses its size; without one it keeps this size, so that a plan's memory is right.
int64_t backward_workspace(const CudnnSizes& of, std::string_view chip) {
  constexpr int64_t kF32 = 4;
  const int64_t heads = of.b * of.n;
  switch (gpu_generation(chip)) {
    case Generation::AMPERE: {
      constexpr int64_t kTile = 16;
      const int64_t filled = (of.s + kTile - 1) / kTile * kTile;
      return heads * kF32 * (of.d * filled + of.d * of.s + of.s) + 128;
    }
    case Generation::HOPPER:
      return heads * of.s * kF32 * (of.d + 1) + 256;
    case Generation::BLACKWELL:
      break;
  }
  return heads * of.s * kF32 * (of.d + 1);
}

/// Adds the number of valid queries and keys of each sample: S32 [b] each.
void add_lengths(std::vector<Tensor>& operands, const CudnnSizes& of, Tensor keys) {
  operands.push_back(constant(keys.graph(), static_cast<double>(of.s), {DType::S32, {of.b}}));
  operands.push_back(broadcast_to(reshape(keys, {1}), {of.b}));
}

/// `x` if any key is valid, otherwise `other`.
Tensor if_any(Tensor keys, Tensor x, double other) {
  return select(broadcast_to(compare(keys, Comparison::GT, 0.0), x.shape().dims), x,
                constant(x.graph(), other, x.shape()));
}

/// x [b, t, n, d] with 0 for masked keys, for which cuDNN guarantees nothing.
Tensor of_counted(Tensor x, Tensor keys) {
  const Tensor counts = compare(iota(x.graph(), {DType::S32, {x.dim(1)}}, Axis(0)), Comparison::LT,
                                broadcast_to(keys, {x.dim(1)}));
  return select(broadcast_in_dim(counts, x.shape().dims, {1}), x, zeros_like(x));
}

}  // namespace

std::string cudnn_refusal(const Shape& q, const Shape& k, std::string_view chip) {
  constexpr int64_t kStep = 8;
  const int64_t width = q.dims[3];
  if (q.dtype != DType::BF16 && q.dtype != DType::F16) {
    return fmt::format("{} was given, expected bf16 or f16: activations_dtype=bfloat16 is nearest",
                       to_string(q.dtype));
  }
  if (width % kStep != 0 || width > widest(chip)) {
    const int64_t nearest = std::clamp((width + kStep / 2) / kStep * kStep, kStep, widest(chip));
    return fmt::format(
        "the head width is {}, expected a multiple of {} of at most {}: {} is nearest", width,
        kStep, widest(chip), nearest);
  }
  if (q.elements() == 0 || k.elements() == 0) {
    return fmt::format("{} queries and {} keys were given, expected 1 or more", q.dims[1],
                       k.dims[1]);
  }
  return "";
}

std::vector<Tensor> cudnn_flash_forward(std::span<const Tensor> in, DType y,
                                        const FlashAttentionSettings& settings,
                                        std::string_view chip, bool lse) {
  const CudnnSizes of = sizes_of(in);
  const Tensor keys = in.size() > 3 ? in[3] : Tensor();
  const DType dtype = in[0].dtype();
  std::vector<Tensor> operands(in.begin(), in.begin() + 3);
  if (keys) {
    add_lengths(operands, of, maximum(keys, 1.0));  // a row without keys would divide by zero
  }
  std::vector<Shape> results{{dtype, {of.b, of.n, of.s, of.d}}};
  CustomCallAttrs attrs{.target = "__cudnn$fmhaSoftmax",
                        .api_version = 2,
                        .config = mlir_quoted(cudnn_configuration(
                            of, dtype, settings.scale, static_cast<bool>(keys), Pass::FORWARD)),
                        .result_layouts = {kHeadsInside}};
  const Shape rows{DType::F32, {of.b, of.n, of.s}};
  if (lse) {
    results.push_back(rows);
    attrs.result_layouts.push_back(kRows);
  }
  results.push_back({DType::U8, {forward_workspace(chip)}});
  attrs.result_layouts.push_back(kBytes);
  const std::vector<Tensor> out =
      custom_call(std::move(operands), std::move(results), std::move(attrs));
  Tensor sums = lse ? out[1] : constant(in[0].graph(), 0.0, rows);
  if (keys) {
    sums = if_any(keys, sums, -kNoKeys);
  }
  return {heads_last(out[0], y), sums};
}

std::vector<Tensor> cudnn_flash_backward(std::span<const Tensor> in, DType result,
                                         const FlashAttentionBackwardSettings& settings,
                                         std::string_view chip) {
  const CudnnSizes of = sizes_of(in);
  const Tensor keys = in.size() > 7 ? in[7] : Tensor();
  const DType dtype = in[0].dtype();
  // Without keys every weight, and so every gradient, is 0 relative to this sum.
  const Tensor lse = keys ? if_any(keys, in[3], kNoKeys) : in[3];
  std::vector<Tensor> operands{in[0], in[1], in[2], lse, in[5], in[6]};
  if (keys) {
    add_lengths(operands, of, maximum(keys, 1.0));
  }
  const Shape of_keys{dtype, {of.b, of.n, of.t, of.d}};
  const std::vector<Tensor> out =
      custom_call(std::move(operands),
                  {{dtype, {of.b, of.n, of.s, of.d}},
                   of_keys,
                   of_keys,
                   {DType::U8, {backward_workspace(of, chip)}}},
                  {.target = "__cudnn$fmhaSoftmaxBackward",
                   .api_version = 2,
                   .config = mlir_quoted(cudnn_configuration(
                       of, dtype, settings.scale, static_cast<bool>(keys), Pass::BACKWARD)),
                   .result_layouts = {kHeadsInside, kHeadsInside, kHeadsInside, kBytes}});
  std::vector<Tensor> grads;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor gradient = heads_last(out[i], result);
    grads.push_back(i > 0 && keys ? of_counted(gradient, keys) : gradient);
  }
  return grads;
}

}  // namespace kinema::kernels
