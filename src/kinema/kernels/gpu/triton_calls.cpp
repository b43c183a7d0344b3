#include "kinema/kernels/gpu/triton_calls.h"

#include <fmt/format.h>

#include <any>
#include <memory>

#include "kinema/graph/body.h"
#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/triton_flash.h"
#include "kinema/kernels/gpu/triton_tiles.h"
#include "kinema/kernels/rewrite.h"

namespace kinema::kernels {
namespace {

using triton::FlashKernel;
using triton::FlashPass;
using triton::FlashWork;

constexpr int64_t kWidest = 256;
/// Limit of the grid's second and third axis.
constexpr int64_t kMostPrograms = 65535;

/// Index of the optional number of keys in the inputs.
constexpr size_t kForwardKeys = 3;
constexpr size_t kBackwardKeys = 7;

std::vector<Tensor> call(FlashPass pass, FlashWork work, std::vector<Tensor> operands,
                         std::string_view chip) {
  work.tile = triton::best_tile(pass, work, chip);
  triton::check_fits(pass, work, chip);
  const FlashKernel kernel = triton::flash_kernel(pass, work);
  return custom_call(
      std::move(operands), kernel.results,
      {.target = "__gpu$xla.gpu.triton",
       .api_version = 4,
       .config = triton_configuration(kernel.text, kernel.tile.warps, kernel.tile.stages),
       .kernel = kernel.text});
}

FlashWork work_of(Tensor q, Tensor k, DType result, double scale, bool keys_given) {
  return {.batch = q.dim(0),
          .queries = q.dim(1),
          .keys = k.dim(1),
          .heads = q.dim(2),
          .width = q.dim(3),
          .dtype = q.dtype(),
          .result = result,
          .scale = scale,
          .keys_given = keys_given};
}

bool write(const Node& node, Emitter& out, const std::string& chip) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const auto* forward = std::any_cast<FlashAttentionSettings>(&body.settings);
  const auto* backward = std::any_cast<FlashAttentionBackwardSettings>(&body.settings);
  const DType result = node.results[0].dtype;
  if ((forward == nullptr && backward == nullptr) ||
      !triton_refusal(node.shape(0), node.shape(1), result,
                      forward != nullptr ? forward->scale : backward->scale)
           .empty()) {
    return false;
  }
  emit_replacement(node, out, [&](std::span<const Tensor> in) {
    return forward != nullptr ? triton_flash_forward(in, result, *forward, chip)
                              : triton_flash_backward(in, result, *backward, chip);
  });
  return true;
}

}  // namespace

std::string triton_configuration(const KernelText& kernel, int64_t warps, int64_t stages) {
  return fmt::format(
      "{{name = {}, ir = {}, num_stages = {} : i32, num_warps = {} : i32, grid_x = {} : i32, "
      "grid_y = {} : i32, grid_z = {} : i32, debug = false}}",
      mlir_quoted(kernel.name), mlir_quoted(kernel.text), stages, warps, kernel.grid[0],
      kernel.grid[1], kernel.grid[2]);
}

std::string triton_refusal(const Shape& q, const Shape& k, DType result, double scale) {
  if (q.dtype != DType::BF16 && q.dtype != DType::F16 && q.dtype != DType::F32) {
    return fmt::format("q of {} was given, expected bf16, f16 or f32", to_string(q.dtype));
  }
  if (result != q.dtype && result != DType::F32) {
    return fmt::format("results of {} were requested, expected {} or f32", to_string(result),
                       to_string(q.dtype));
  }
  if (q.rank() != 4 || k.rank() != 4 || q.elements() == 0 || k.elements() == 0) {
    return fmt::format("q {} and k {} were given, expected [b, s, n, d] and [b, t, n, d]",
                       to_string(q), to_string(k));
  }
  if (q.dims[3] > kWidest) {
    return fmt::format("heads of {} were given, expected at most {}: {} is nearest", q.dims[3],
                       kWidest, kWidest);
  }
  if (q.dims[0] > kMostPrograms || q.dims[2] > kMostPrograms) {
    return fmt::format("{} samples of {} heads were given, expected at most {} of each", q.dims[0],
                       q.dims[2], kMostPrograms);
  }
  if (!(scale > 0)) {
    return fmt::format("a scale of {} was given, expected one above 0", scale);
  }
  return "";
}

std::vector<Tensor> triton_flash_forward(std::span<const Tensor> in, DType y,
                                         const FlashAttentionSettings& settings,
                                         std::string_view chip) {
  const bool keys_given = in.size() > kForwardKeys;
  return call(FlashPass::FORWARD, work_of(in[0], in[1], y, settings.scale, keys_given),
              {in.begin(), in.end()}, chip);
}

std::vector<Tensor> triton_flash_backward(std::span<const Tensor> in, DType result,
                                          const FlashAttentionBackwardSettings& settings,
                                          std::string_view chip) {
  const bool keys_given = in.size() > kBackwardKeys;
  const FlashWork work = work_of(in[0], in[1], result, settings.scale, keys_given);
  std::vector<Tensor> operands{in[0], in[1], in[2], in[3], in[4], in[5]};
  if (keys_given) {
    operands.push_back(in[kBackwardKeys]);
  }
  const std::vector<Tensor> dkv = call(FlashPass::BACKWARD_DKV, work, operands, chip);
  const std::vector<Tensor> dq = call(FlashPass::BACKWARD_DQ, work, operands, chip);
  return {dq[0], dkv[0], dkv[1]};
}

Lowering triton_lowering(const TritonLoweringOptions& options) {
  return [options](const Node& node, Emitter& out) {
    const bool partitioned = options.mesh && out.manual_depth() == 0;
    return node.op == &kCall && !partitioned && write(node, out, options.chip);
  };
}

}  // namespace kinema::kernels
