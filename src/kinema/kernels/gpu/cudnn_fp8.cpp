#include "kinema/kernels/gpu/cudnn_fp8.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/cudnn_attention.h"
#include "kinema/kernels/gpu/cudnn_call.h"
#include "kinema/kernels/gpu/generation.h"

namespace kinema::kernels {
namespace {

constexpr double kLargest = 448;  // of e4m3

/// Unnormalised weights are at most 1. This power of two scales them close to the largest e4m3
/// value without rounding.
constexpr double kWeightScale = 256;

/// With fewer keys, reading q twice and writing it in 8 bits takes as long as 8-bit products save:
/// 5 bytes at 3 TB/s against 4 t FLOP at 620 and at 857 TFLOP/s (H200, docs/guides/plan.md).
constexpr int64_t kManyKeys = 1024;

const Dims kScalar{1, 1, 1, 1};
const std::vector<int64_t> kScalarLayout{3, 2, 1, 0};

struct Float8Values {
  Tensor values;   // f8E4M3FN
  Tensor largest;  // f32 scalar: the largest magnitude before scaling
};

Float8Values to_float8(Tensor x) {
  const Tensor wide = convert(x, DType::F32);
  // The bound keeps an all-zero x from a division by 0.
  const Tensor largest = maximum(max(abs(wide)), 0x1p-100);
  return {convert(wide * broadcast_to(kLargest / largest, x.shape().dims), DType::F8E4M3FN),
          largest};
}

Tensor number(Tensor x) { return reshape(x, kScalar); }

}  // namespace

std::string cudnn_fp8_refusal(const Shape& q, const Shape& k, std::string_view chip) {
  const Generation generation = gpu_generation(chip);
  if (generation == Generation::AMPERE) {
    return "cuDNN supports 8-bit attention only on H100, H200, B200 and their variants: "
           "attention_gpu_kernel=cudnn is nearest";
  }
  constexpr int64_t kStep = 16;
  const int64_t widest = generation == Generation::HOPPER ? 256 : 128;
  const int64_t width = q.dims[3];
  if (width % kStep != 0 || width > widest) {
    const int64_t nearest = std::clamp((width + kStep / 2) / kStep * kStep, kStep, widest);
    return fmt::format(
        "the head width is {}, expected a multiple of {} of at most {}: {} is nearest, or "
        "attention_gpu_kernel=cudnn",
        width, kStep, widest, nearest);
  }
  return cudnn_refusal(q, k, chip);
}

bool cudnn_fp8_is_faster(const Shape& k, bool masked) { return !masked && k.dims[1] >= kManyKeys; }

std::vector<Tensor> cudnn_flash_forward_fp8(std::span<const Tensor> in, DType y,
                                            const FlashAttentionSettings& settings,
                                            std::string_view chip, bool lse) {
  const CudnnSizes of = sizes_of(in);
  Graph& graph = in[0].graph();
  const auto constant_of = [&](double value) {
    return constant(graph, value, {DType::F32, kScalar});
  };
  const Float8Values q = to_float8(in[0]);
  const Float8Values k = to_float8(in[1]);
  const Float8Values v = to_float8(in[2]);
  // y is a mean of rows of v, so v's scale also fits y.
  const std::vector<Tensor> operands{q.values,
                                     k.values,
                                     v.values,
                                     number(q.largest / kLargest),
                                     number(k.largest / kLargest),
                                     number(v.largest / kLargest),
                                     constant_of(1 / kWeightScale),
                                     constant_of(kWeightScale),
                                     number(kLargest / v.largest)};
  const Shape scalar{DType::F32, kScalar};  // largest weight, largest result
  std::vector<Shape> results{{DType::F8E4M3FN, {of.b, of.n, of.s, of.d}}, scalar, scalar};
  CustomCallAttrs attrs{.target = "__cudnn$fmhaSoftmaxF8",
                        .api_version = 2,
                        .config = mlir_quoted(cudnn_configuration(of, DType::BF16, settings.scale,
                                                                  false, Pass::FORWARD)),
                        .result_layouts = {kHeadsInside, kScalarLayout, kScalarLayout}};
  const Shape rows{DType::F32, {of.b, of.n, of.s}};
  if (lse) {
    results.push_back(rows);
    attrs.result_layouts.push_back(kRows);
  }
  results.push_back({DType::U8, {forward_workspace(chip)}});
  attrs.result_layouts.push_back(kBytes);
  const std::vector<Tensor> out = custom_call(operands, std::move(results), std::move(attrs));
  const Tensor wide = heads_last(out[0], DType::F32);
  const Tensor unscaled = wide * broadcast_to(v.largest / kLargest, wide.shape().dims);
  return {y == DType::F32 ? unscaled : convert(unscaled, y),
          lse ? out[3] : constant(graph, 0.0, rows)};
}

}  // namespace kinema::kernels
