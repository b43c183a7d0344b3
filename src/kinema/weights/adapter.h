#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/weights/lora.h"

/// Adapters that are trained, or applied without merging them: LoRA (arXiv:2106.09685), y = W x + b
/// + s B A x, A [rank, in], B [out, rank], and the other kinds of nn::LinearAdapter.
namespace kinema::weights {

/// Initialisation of A, as in PEFT: uniform within 1 / sqrt(in), or normal with standard deviation
/// 1 / rank. B is 0.
enum class AdapterInit : uint8_t { KAIMING, GAUSSIAN };

/// An adapter to train.
struct AdapterConfig {
  int64_t rank = 16;
  double alpha = 16;
  bool use_rslora = false;
  nn::LowRanks modules;  // the linear layers with an adapter, all of this `rank`, and its kind
  std::string part = "transformer";  // of the pipeline, the prefix of keys: unet for a UNet
  std::string expert;      // kHighNoise or kLowNoise; empty if the pipeline has one network
  std::string base_model;  // the network's source, for the adapter's configuration file
  double dropout = 0;      // likewise
  double plus_ratio = 1;   // learning rate of lora_B divided by that of the others
  AdapterInit init = AdapterInit::KAIMING;

  /// s: alpha / rank; if rank-stabilised, alpha / sqrt(rank) (arXiv:2312.03732). LoKr with two
  /// whole factors has s = 1, as LyCORIS reads such files.
  double scale() const;
};

/// The linear layers that match `targets`, each with `rank`; `specs` are those of the network
/// without adapters. A target is
///
///   attention      to_q, to_k, to_v, to_out.0 of every block, and add_q_proj, add_k_proj,
///                  add_v_proj, to_add_out if they exist
///   attention+ffn  these, and net.0.proj, net.2 of ffn, ff and ff_context
///   all            every linear layer of the network
///   convolutions   every convolution over images in the blocks
///
/// or a word of named_by, which may also name such convolutions. Throws an Error for a target
/// without a layer, and for one that matches only some layers of a stack (scan_layers), which share
/// one parameter.
nn::LowRanks adapter_modules(std::span<const nn::ParamSpec> specs,
                             std::span<const std::string> targets, int64_t rank);

/// The linear layers that have an adapter in `specs`, in their order, with separate names for the
/// layers of a stack.
std::vector<std::string> adapter_module_names(std::span<const nn::ParamSpec> specs);

/// `LoRA`, `DoRA`, `LoHa` or `LoKr`.
std::string_view kind_name(nn::AdapterKind kind);

/// Makes the adapters' factors in `specs` trained, in F32, and freezes everything else.
void freeze_base(std::vector<nn::ParamSpec>& specs, const AdapterConfig& config);

/// The kind of a file's adapters, the rank of all of them, and their scale (alpha / rank). Throws
/// an Error if they differ, or if the file contains more: it cannot be trained. The rank is 0 if
/// all are LoKr with whole factors.
struct UniformRank {
  int64_t rank = 0;
  double factor = 1;
  nn::AdapterKind kind = nn::AdapterKind::LORA;
};
UniformRank uniform_rank(const Adapter& adapter);

/// The parameters of `specs`, which include adapters, in their order: the network's from `base`
/// with the adapters `merged` merged into them, the adapters' from `apart`. Layers that are not in
/// `apart` are initialised by their init, a function of (seed, name), and DoRA's norms to those of
/// the network's rows.
std::vector<runtime::Array> load_adapted(const std::filesystem::path& base,
                                         std::span<const Adapter> merged,
                                         std::span<const Adapter> apart, uint64_t seed,
                                         std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices);
/// The same from an open file; `specs` may have no adapters.
std::vector<runtime::Array> load_adapted(const model_files::Checkpoint& base,
                                         std::span<const Adapter> merged,
                                         std::span<const Adapter> apart, uint64_t seed,
                                         std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices);

/// Only the adapters' parameters.
std::vector<runtime::Array> load_adapters(std::span<const Adapter> apart, uint64_t seed,
                                          std::span<const nn::ParamSpec> specs,
                                          const runtime::Devices& devices);

/// Writes `folder` for diffusers and PEFT: `pytorch_lora_weights.safetensors` with diffusers' keys
/// and alpha in the metadata, `adapter_config.json` with PEFT's configuration. `factors` are the
/// specs of lora_A and lora_B in the dtypes of the arrays of to_host(i), which is called once per
/// array, in order.
void save_adapter(const std::filesystem::path& folder, const AdapterConfig& config,
                  std::span<const nn::ParamSpec> factors,
                  const std::function<HostArray(size_t i)>& to_host);

}  // namespace kinema::weights
