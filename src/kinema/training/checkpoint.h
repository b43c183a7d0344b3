#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/networks/network.h"
#include "kinema/nn/params.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/runtime/array.h"
#include "kinema/training/base_models.h"
#include "kinema/training/state.h"
#include "kinema/training/train_state.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/lora.h"

/// The contents of a checkpoint of a training run:
///
///   transformer/        parameters in their dtypes, as a diffusers folder
///   transformer_ema/    the average of the parameters in F32, if there is one
///                       (low-noise expert: transformer_2/, transformer_2_ema/; UNet: unet/,
///                       unet_ema/)
///   text_encoder/       parameters of trained text encoders (text_encoder_2/, text_encoder_ema/)
///   adapter/            instead of these if only an adapter is trained: its factors as a LoRA file
///                       in diffusers' format, with PEFT's adapter_config.json
///   adapter_ema/        its average
///   controlnet/         instead of these if only a ControlNet is trained (controlnet_ema/)
///   textual_inversion/  instead of these if only words are trained: a file for each
///   textual_inversion_ema/
///   optimizer/          mu.safetensors and nu.safetensors under the parameters' keys, and other
///                       state of the optimizer (Optimizer::moments)
///   train_state.json    step, updates (and updates_2; in total, of moments and of the average:
///                       Count), seed, results of evaluations, and the settings that a resumed run
///                       is compared with
///   manifest.json       see CheckpointFolder
///
/// A run of both experts has two of each: transformer/ and transformer_2/, adapter/ and adapter_2/,
/// optimizer/ and optimizer_2/.
namespace kinema::training {

/// The parts of a state, in addition to the trained parameters, that a checkpoint contains.
struct Held {
  bool optimizer = true;
  /// Parameters; not of the model of an adapter, of words or of a ControlNet, which is stored
  /// elsewhere.
  bool frozen = true;
};

/// A state whose arrays are copied to the host one by one, each once and in order.
struct StateSource {
  /// An array in its stored dtype.
  struct Kept {
    DType dtype;
    std::function<HostArray()> to_host;
    int64_t owner = 0;  // the process that has and writes it
  };
  std::vector<nn::ParamSpec> specs;  // of the network, in the dtypes of computation
  StateParts<Kept> parts;
  optimizers::Moments<nn::ParamSpec> moments;  // those in `parts`
  int64_t process = 0;  // the process of this source, if several write a checkpoint together
  int64_t processes = 1;
};

/// The state on the devices, which must not change until it is written.
StateSource source_of(const StateView& state);
/// A copy of these parts in host memory, which is freed while it is written.
StateSource host_copy(const StateSource& state, const Held& held = {});
StateSource host_copy(const StateView& state, const Held& held = {});
/// Bytes of host_copy.
int64_t host_bytes(const StateView& state, const Held& held = {});

/// Bytes of a checkpoint's arrays.
int64_t checkpoint_bytes(const StateParts<nn::ParamSpec>& parts, const Held& held);

/// Writes everything except the manifest into `folder`. Without the optimizer such a checkpoint
/// contains weights only.
void save_state(const std::filesystem::path& folder, const networks::Network& network,
                const StateSource& state, const TrainState& train, const Held& held = {});
void save_state(const std::filesystem::path& folder, const networks::Network& network,
                const StateView& state, const TrainState& train, const Held& held = {});
/// The same for both experts of a run, high noise first; `train` is the first's.
void save_states(const std::filesystem::path& folder, const networks::Network& network,
                 std::span<const StateSource> states, const TrainState& train,
                 const Held& held = {});

/// Loads the state from a checkpoint, written with any devices: each device reads its part, in the
/// dtypes of the specs (state_specs) regardless of the checkpoint's; an average is F32. A missing
/// average starts as the parameters, and missing moments start at zero; their counts then start at
/// 0, and other counts are restored. For a checkpoint with an adapter, words or a ControlNet,
/// `base` are its models; throws an Error if only one of the two is present. `expert`: of a
/// checkpoint of both, 1 is the low-noise one.
State load_state(const std::filesystem::path& folder, std::span<const nn::ParamSpec> specs,
                 bool ema, const runtime::Devices& devices,
                 const optimizers::Optimizer& optimizer = plain_adamw(),
                 const std::optional<BaseModels>& base = {}, int64_t expert = 0);

/// The initial state of a run with these parameters, one per spec; moments have the parameters'
/// dtypes unless the optimizer has its own.
State fresh_state(std::vector<runtime::Array> params, std::span<const nn::ParamSpec> specs,
                  bool ema, const runtime::Devices& devices,
                  const optimizers::Optimizer& optimizer = plain_adamw());
/// The same, for parameters on one device.
State fresh_state(std::vector<pjrt::Buffer> params, std::span<const nn::ParamSpec> specs, bool ema,
                  const runtime::Devices& devices);

}  // namespace kinema::training
