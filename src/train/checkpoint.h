#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/resume.h"
#include "models/wan/config.h"
#include "nn/params.h"
#include "pjrt/buffer.h"
#include "runtime/array.h"

/// What a checkpoint of a training run holds:
///
///   transformer/        diffusers folder, the parameters in the dtypes they are kept in
///   transformer_ema/    the average of the parameters in F32, when one is kept
///     or, of the expert for low noise, transformer_2/ and transformer_2_ema/
///   optimizer/          mu.safetensors and nu.safetensors under the parameters' keys, like them
///   train_state.json    step, updates, seed, and the settings that a resumed run is compared with
///   manifest.json       see CheckpointFolder
namespace kinema::train {

struct TrainState {
  int64_t step = 0;           // steps completed
  int64_t data_position = 0;  // of the next batch
  int64_t seed = 0;
  config::Record settings;  // those that decide the result
  /// The folder of the parameters.
  std::string weights = "transformer";

  /// The text of a setting; empty where the checkpoint has none of that name.
  std::string setting(const std::string& key) const;
};

/// The state's arrays in StepGraph's order: params, mu, nu, [ema], count.
struct StateView {
  std::span<const nn::ParamSpec> specs;  // in the dtypes the network works in
  bool ema = false;
  std::span<const runtime::Array> arrays;

  std::span<const runtime::Array> params() const { return part(0); }
  std::span<const runtime::Array> mu() const { return part(1); }
  std::span<const runtime::Array> nu() const { return part(2); }
  std::span<const runtime::Array> averages() const { return part(3); }
  const runtime::Array& count() const { return arrays.back(); }

 private:
  std::span<const runtime::Array> part(size_t i) const {
    return arrays.subspan(i * specs.size(), specs.size());
  }
};

/// A state that is brought to the host array by array, each once and in order.
struct StateSource {
  std::vector<nn::ParamSpec> specs;  // in the dtypes the network works in
  bool ema = false;
  std::vector<DType> dtypes;  // of the arrays, in StateView's order
  std::function<HostArray(size_t)> to_host;
};

/// The state as it lies on the devices, and must stay until it is written.
StateSource source_of(const StateView& state);
/// A copy of the state in host memory, which is freed as it is written. `with_optimizer` false
/// leaves the optimizer's moments out.
StateSource host_copy(const StateView& state, bool with_optimizer = true);
/// Bytes that host_copy takes.
int64_t host_bytes(const StateView& state, bool with_optimizer = true);

/// Bytes of a checkpoint's arrays: `kept` are the parameters as they are kept (state_specs).
int64_t checkpoint_bytes(std::span<const nn::ParamSpec> kept, bool ema, bool with_optimizer);

/// Writes everything but the manifest into `folder`. `with_optimizer` false leaves the optimizer
/// out: such a checkpoint holds weights only.
void save_state(const std::filesystem::path& folder, const wan::TransformerConfig& config,
                const StateSource& state, const TrainState& train, bool with_optimizer = true);
void save_state(const std::filesystem::path& folder, const wan::TransformerConfig& config,
                const StateView& state, const TrainState& train, bool with_optimizer = true);

/// The folder of the parameters within a checkpoint, `transformer` or `transformer_2`, and that of
/// their average.
std::string weights_part(const std::filesystem::path& folder);
std::string average_part(const std::string& weights);

/// Reads `train_state.json`; throws an Error naming file and key when it is not one of ours. One of
/// an earlier version has few settings.
TrainState read_train_state(const std::filesystem::path& folder);

/// Whether the checkpoint holds the optimizer's moments.
bool has_optimizer(const std::filesystem::path& folder);

/// The state from a checkpoint, whatever devices wrote it: each device reads what it holds, in the
/// dtypes of the specs (state_specs) whatever the checkpoint was kept in; an average is F32. An
/// average that the checkpoint does not hold starts as the parameters; without an optimizer in it
/// moments and count start at zero.
std::vector<runtime::Array> load_state(const std::filesystem::path& folder,
                                       std::span<const nn::ParamSpec> specs, bool ema,
                                       const runtime::Devices& devices);

/// The state of a run that begins with these parameters; moments are of their dtypes.
std::vector<runtime::Array> fresh_state(std::vector<runtime::Array> params,
                                        std::span<const nn::ParamSpec> specs, bool ema,
                                        const runtime::Devices& devices);
/// The same from parameters on one device.
std::vector<runtime::Array> fresh_state(std::vector<pjrt::Buffer> params,
                                        std::span<const nn::ParamSpec> specs, bool ema,
                                        const runtime::Devices& devices);

}  // namespace kinema::train
