#include "kinema/kernels/gpu/cost.h"

#include <algorithm>
#include <array>
#include <string>

#include "kinema/kernels/gpu/generation.h"
#include "kinema/kernels/gpu/triton_cost.h"

namespace kinema::kernels {
namespace {

struct Kind {
  std::string_view name;
  double products;  // of batch x heads x queries x keys x width, two operations each
};
constexpr Kind kCudnnForward{"flash forward (cuDNN)", 2};
constexpr Kind kCudnnBackward{"flash backward (cuDNN)", 5};

/// Shares of the published bf16 peak.
struct Shares {
  double forward, backward;
};

/// 595 and 516 of 989 TFLOP/s with 16 thousand tokens and heads of 128 on H100: the
/// FlashAttention-3 paper's figures for cuDNN (arXiv:2407.08608). B200: forward, the
/// FlashAttention-4 paper's factor to cuDNN; backward estimated. A100: FlashAttention-2's.
constexpr Shares kCudnnShares[] = {{0.72, 0.63}, {0.60, 0.52}, {0.55, 0.45}};
const Kind* kind_of(const pjrt::HloInstruction& call) {
  if (call.target.starts_with("__cudnn$fmha")) {
    return call.target.find("Backward") == std::string::npos ? &kCudnnForward : &kCudnnBackward;
  }
  return nullptr;
}

std::string note_of(Generation generation, std::string_view chip) {
  if (generation == Generation::BLACKWELL) {
    return "attention's rates on B200 are derived from published factors, backward estimated";
  }
  if (generation == Generation::AMPERE && !chip.starts_with("a100")) {
    return "attention's share of the peak is taken as A100's";
  }
  return "";
}

}  // namespace

std::optional<KernelCost> gpu_kernel_cost(const pjrt::HloComputation& where,
                                          const pjrt::HloInstruction& call, std::string_view chip) {
  if (call.target == "__gpu$xla.gpu.triton") {
    return triton_kernel_cost(call.backend_config, chip);
  }
  const Kind* kind = kind_of(call);
  if (kind == nullptr || call.operands.size() < 3) {
    return std::nullopt;
  }
  const pjrt::HloShape& q = where.instructions[call.operands[0]].shape;
  const pjrt::HloShape& k = where.instructions[call.operands[1]].shape;
  if (q.dims.size() != 4 || k.dims.size() != 4) {
    return std::nullopt;
  }
  const Generation generation = generation_of(chip);
  const Shares& shares = kCudnnShares[static_cast<size_t>(generation)];
  return KernelCost{.name = std::string(kind->name),
                    .flops = 2 * kind->products * static_cast<double>(q.elements()) *
                             static_cast<double>(k.dims[1]),
                    .peak_share = kind->products == 2 ? shares.forward : shares.backward,
                    .note = note_of(generation, chip)};
}

}  // namespace kinema::kernels
