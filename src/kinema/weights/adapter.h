#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/weights/lora.h"

/// Low-rank additions to a network that are trained, or kept apart from its weights (LoRA,
/// arXiv:2106.09685): y = W x + b + s B A x, A [rank, in], B [out, rank].
namespace kinema::weights {

/// How A begins, as in PEFT: uniform within 1 / sqrt(in), or normal of deviation 1 / rank. B is 0.
enum class AdapterInit : uint8_t { KAIMING, GAUSSIAN };

/// An adapter that is trained.
struct AdapterConfig {
  int64_t rank = 16;
  double alpha = 16;
  bool use_rslora = false;
  nn::LowRanks modules;              // the linear layers that it changes, all by `rank`
  std::string part = "transformer";  // of the pipeline, with which keys begin: unet of a UNet
  std::string expert;                // kHighNoise or kLowNoise; empty where the pipeline has no two
  std::string base_model;            // where the network is from, for its configuration file
  double dropout = 0;                // likewise
  AdapterInit init = AdapterInit::KAIMING;

  /// s: alpha / rank, rank-stabilised alpha / sqrt(rank) (arXiv:2312.03732).
  double scale() const;
};

/// The linear layers that `targets` mean, each with `rank`; `specs` are those of the network
/// without additions. A target is
///
///   attention      to_q, to_k, to_v, to_out.0 of every block, and add_q_proj, add_k_proj,
///                  add_v_proj, to_add_out where there are such
///   attention+ffn  these, and net.0.proj, net.2 of ffn, ff and ff_context
///   all            every linear layer of the network
///
/// or what named_by takes. Throws an Error for a target that means no linear layer, and for one
/// that means some layers of a stack (scan_layers), which share one parameter.
nn::LowRanks adapter_modules(std::span<const nn::ParamSpec> specs,
                             std::span<const std::string> targets, int64_t rank);

/// The linear layers that have an addition in `specs`, in their order, each layer of a stack by its
/// own name.
std::vector<std::string> added_modules(std::span<const nn::ParamSpec> specs);

/// Makes the factors of the additions in `specs` what is trained, in F32, and nothing else.
void train_alone(std::vector<nn::ParamSpec>& specs, const AdapterConfig& config);

/// The one rank that all pairs of a file have, and its scale (alpha / rank). Throws an Error where
/// they differ, or where the file has more than pairs: such a file cannot be trained on.
struct UniformRank {
  int64_t rank = 0;
  double factor = 1;
};
UniformRank uniform_rank(const Adapter& adapter);

/// The parameters of `specs`, which have room for additions, in their order: those of the network
/// from `base` with the adapters `merged` in it, the additions' as `apart` has them. Of layers that
/// `apart` does not have they begin by their init, a function of (seed, name).
std::vector<runtime::Array> load_adapted(const std::filesystem::path& base,
                                         std::span<const Adapter> merged,
                                         std::span<const Adapter> apart, uint64_t seed,
                                         std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices);

/// The additions' parameters alone.
std::vector<runtime::Array> load_additions(std::span<const Adapter> apart, uint64_t seed,
                                           std::span<const nn::ParamSpec> specs,
                                           const runtime::Devices& devices);

/// Writes `folder` as diffusers and PEFT read it: `pytorch_lora_weights.safetensors` with
/// diffusers' keys and alpha in the metadata, `adapter_config.json` with PEFT's configuration.
/// `factors` are the specs of lora_A and lora_B in the dtypes of the arrays that to_host(i) gives,
/// each once and in order.
void save_adapter(const std::filesystem::path& folder, const AdapterConfig& config,
                  std::span<const nn::ParamSpec> factors,
                  const std::function<HostArray(size_t i)>& to_host);

}  // namespace kinema::weights
