#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/networks/network.h"
#include "kinema/nn/params.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/runtime/array.h"
#include "kinema/training/gain.h"
#include "kinema/training/state.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/lora.h"

/// What a checkpoint of a training run holds:
///
///   transformer/        diffusers folder, the parameters in the dtypes they are kept in
///   transformer_ema/    the average of the parameters in F32, when one is kept
///     or, of the expert for low noise, transformer_2/ and transformer_2_ema/, of a UNet unet/ and
///     unet_ema/
///   adapter/            where an adapter alone is trained, in their place: its factors in a LoRA
///                       file as diffusers has them, with PEFT's adapter_config.json
///   adapter_ema/        their average
///     and of a run of both experts each of these twice: transformer/ and transformer_2/,
///     adapter/ and adapter_2/, optimizer/ and optimizer_2/
///   optimizer/          mu.safetensors and nu.safetensors under the parameters' keys, like them,
///                       and what else an optimizer keeps (Optimizer::moments)
///   train_state.json    step, updates (updates_2; in all, and those of moments and average:
///   Count),
///                       seed, what evaluations came to, and the settings that a resumed run is
///                       compared with
///   manifest.json       see CheckpointFolder
namespace kinema::training {

inline constexpr const char* kAdapter = "adapter";

/// Which parts of a state a checkpoint holds beside those that are trained.
struct Held {
  bool optimizer = true;
  bool frozen = true;  // parameters; not beside an adapter, whose base lies elsewhere
};

/// Where the network lies that an adapter is trained on, and what is merged into it.
struct AdapterBase {
  std::filesystem::path folder;
  std::vector<weights::Adapter> merged;
};

struct TrainState {
  int64_t step = 0;           // steps completed
  int64_t data_position = 0;  // of the next batch
  int64_t seed = 0;
  std::map<std::string, std::string> settings;  // those that decide the result
  /// The folder of the parameters; with an adapter, kAdapter.
  std::string weights = "transformer";
  /// What is trained where that is an adapter alone; read_train_state leaves it empty.
  std::optional<weights::AdapterConfig> adapter = {};
  Gain gain = {};

  /// The text of a setting; empty where the checkpoint has none of that name.
  std::string setting(const std::string& key) const;
};

/// A state that is brought to the host array by array, each once and in order.
struct StateSource {
  /// An array as it is kept.
  struct Kept {
    DType dtype;
    std::function<HostArray()> to_host;
    int64_t owner = 0;  // the process that writes it, and has it
  };
  std::vector<nn::ParamSpec> specs;  // of the network, in the dtypes it works in
  StateParts<Kept> parts;
  Moments<nn::ParamSpec> moments;  // what `parts` has of them
  int64_t process = 0;  // whose source this is, of several that write a checkpoint together
  int64_t processes = 1;
};

/// The state as it lies on the devices, and must stay until it is written.
StateSource source_of(const StateView& state);
/// A copy of these parts in host memory, which is freed as it is written.
StateSource host_copy(const StateSource& state, const Held& held = {});
StateSource host_copy(const StateView& state, const Held& held = {});
/// Bytes that host_copy takes.
int64_t host_bytes(const StateView& state, const Held& held = {});

/// Bytes of a checkpoint's arrays.
int64_t checkpoint_bytes(const StateParts<nn::ParamSpec>& parts, const Held& held);

/// Writes everything but the manifest into `folder`. Without the optimizer such a checkpoint holds
/// weights only.
void save_state(const std::filesystem::path& folder, const networks::Network& network,
                const StateSource& state, const TrainState& train, const Held& held = {});
void save_state(const std::filesystem::path& folder, const networks::Network& network,
                const StateView& state, const TrainState& train, const Held& held = {});
/// The same of both experts of a run, high noise first; `train` is of the first.
void save_states(const std::filesystem::path& folder, const networks::Network& network,
                 std::span<const StateSource> states, const TrainState& train,
                 const Held& held = {});

/// The folders of the parameters within a checkpoint: `transformer`, `transformer_2` or `adapter`;
/// of both experts `transformer` and `transformer_2`, or `adapter` and `adapter_2`.
std::vector<std::string> weights_parts(const std::filesystem::path& folder);
/// The first of these, and the folder of a part's average.
std::string weights_part(const std::filesystem::path& folder);
std::string average_part(const std::string& weights);

/// Reads `train_state.json`; throws an Error naming file and key when it is not one of ours. One of
/// an earlier version has few settings.
TrainState read_train_state(const std::filesystem::path& folder);

/// Whether the checkpoint holds the average of a part (weights_parts).
bool has_average(const std::filesystem::path& folder, const std::string& part);

/// Whether the checkpoint holds the optimizer's moments.
bool has_optimizer(const std::filesystem::path& folder);

/// The state from a checkpoint, whatever devices wrote it: each device reads what it holds, in the
/// dtypes of the specs (state_specs) whatever the checkpoint was kept in; an average is F32. An
/// average that the checkpoint does not hold starts as the parameters, and without an optimizer in
/// it moments start at zero; each is then counted from 0, while what is there keeps its count. Of a
/// checkpoint with an adapter, `base` has the network; throws an Error where one is given and not
/// wanted, or wanted and not given. `expert`: of a checkpoint of both, 1 is the low-noise one.
State load_state(const std::filesystem::path& folder, std::span<const nn::ParamSpec> specs,
                 bool ema, const runtime::Devices& devices,
                 const Optimizer& optimizer = plain_adamw(),
                 const std::optional<AdapterBase>& base = {}, int64_t expert = 0);

/// The state of a run that begins with these parameters, one for each of the specs; moments are of
/// their dtypes where the optimizer has no other.
State fresh_state(std::vector<runtime::Array> params, std::span<const nn::ParamSpec> specs,
                  bool ema, const runtime::Devices& devices,
                  const Optimizer& optimizer = plain_adamw());
/// The same from parameters on one device.
State fresh_state(std::vector<pjrt::Buffer> params, std::span<const nn::ParamSpec> specs, bool ema,
                  const runtime::Devices& devices);

}  // namespace kinema::training
