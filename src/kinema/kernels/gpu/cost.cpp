#include "kinema/kernels/gpu/cost.h"

#include <algorithm>
#include <array>
#include <span>
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
constexpr Kind kCudnnForwardF8{"flash forward (cuDNN, FP8)", 2};
constexpr Kind kCudnnBackward{"flash backward (cuDNN)", 5};

/// TFLOP/s for this number of tokens, 40 heads of 128.
struct Rates {
  int64_t tokens;
  double forward, backward, forward_f8;
};

/// NVIDIA's published measurements of cuDNN 9.27 for Wan 2.2's attention, 28 September 2026: rows
/// `cudnn`, `no_mask` of benchmark/attention_training/results/wan22 in
/// github.com/NVIDIA/cudnn-frontend. The H100 SXM has the same chip as the H200, with the same
/// clocks and power.
constexpr std::array<Rates, 6> kH200{{{2100, 482, 454, 606},
                                      {7800, 638, 600, 854},
                                      {17160, 631, 588, 891},
                                      {32760, 620, 554, 857},
                                      {48360, 581, 554, 849},
                                      {75600, 572, 548, 833}}};
constexpr std::array<Rates, 6> kGb200{{{2100, 964, 964, 1248},
                                       {7800, 1482, 1333, 1916},
                                       {17160, 1676, 1373, 2152},
                                       {32760, 1621, 1323, 2205},
                                       {48360, 1587, 1238, 2168},
                                       {75600, 1520, 1226, 2166}}};
/// A100 80GB PCIe.
constexpr std::array<Rates, 6> kA100{{{2100, 157, 106, 0},
                                      {7800, 188, 129, 0},
                                      {17160, 176, 127, 0},
                                      {32760, 176, 130, 0},
                                      {48360, 173, 130, 0},
                                      {75600, 169, 128, 0}}};

struct Published {
  std::span<const Rates> rates;
  double peak;  // bf16 TFLOP/s that the maker states for the measured GPU
};
const Published kPublished[] = {{kA100, 312}, {kH200, 989}, {kGb200, 2500}};

/// Fraction of the published bf16 peak, from the entry for the next longer sequence, or the
/// longest.
double share_of(const Kind& kind, Generation generation, int64_t keys) {
  const Published& of = kPublished[static_cast<size_t>(generation)];
  const auto found = std::ranges::lower_bound(of.rates, keys, {}, &Rates::tokens);
  const Rates& row = found == of.rates.end() ? of.rates.back() : *found;
  const double rate = &kind == &kCudnnBackward    ? row.backward
                      : &kind == &kCudnnForwardF8 ? row.forward_f8
                                                  : row.forward;
  return rate / of.peak;
}

const Kind* kind_of(const pjrt::HloInstruction& call) {
  if (call.target.starts_with("__cudnn$fmha")) {
    return call.target.ends_with("Backward") ? &kCudnnBackward
           : call.target.ends_with("F8")     ? &kCudnnForwardF8
                                             : &kCudnnForward;
  }
  return nullptr;
}

std::string note_of(Generation generation, std::string_view chip) {
  if (generation == Generation::BLACKWELL) {
    return "attention's fraction of the peak is assumed to be GB200's";
  }
  if (generation == Generation::AMPERE && !chip.starts_with("a100")) {
    return "attention's fraction of the peak is assumed to be A100's";
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
  const Generation generation = gpu_generation(chip);
  return KernelCost{.name = std::string(kind->name),
                    .flops = 2 * kind->products * static_cast<double>(q.elements()) *
                             static_cast<double>(k.dims[1]),
                    .peak_share = share_of(*kind, generation, k.dims[1]),
                    .note = note_of(generation, chip)};
}

}  // namespace kinema::kernels
