// Loads states from checkpoints, and makes those of new runs.
#include <functional>
#include <memory>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/networks/inner_model.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/state_file.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/weights.h"

namespace kinema::training {

namespace fs = std::filesystem;

namespace {

/// Throws an Error with file and tensor if another kind of optimizer wrote it.
std::vector<runtime::Array> load_moments(const fs::path& path, std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices) {
  if (specs.empty()) {
    return {};
  }
  const model_files::Checkpoint file = model_files::Checkpoint::open(path);
  weights::check_tensors(file, specs);
  return weights::load_arrays(file, specs, devices);
}

std::vector<runtime::Array> zeros(std::span<const nn::ParamSpec> specs,
                                  const runtime::Devices& devices) {
  std::vector<runtime::Array> out;
  for (const nn::ParamSpec& spec : specs) {
    out.push_back(devices.zeros(spec.shape, spec.sharding(devices.placement()), spec.memory));
  }
  return out;
}

/// A copy in F32, device by device.
runtime::Array f32_copy(const runtime::Array& array, const runtime::Devices& devices,
                        Memory memory) {
  std::vector<pjrt::Buffer> shards;
  for (size_t d = 0; d < array.shards().size(); ++d) {
    const HostArray values = convert(array.shards()[d].to_host(), DType::F32);
    shards.push_back(devices.client().to_device(values.bytes, values.shape, devices[d],
                                                devices.memory_kind(memory)));
  }
  return {{DType::F32, array.shape().dims},
          {array.blocks().begin(), array.blocks().end()},
          std::move(shards)};
}

runtime::Array counts_array(const Counts& counts, const runtime::Devices& devices) {
  return devices.upload(HostArray::from<int32_t>(DType::S32, {COUNTS}, counts));
}

/// Distributes parameters in the network's order over the parts of a state.
void set_params(State& state, std::vector<runtime::Array> params,
                std::span<const nn::ParamSpec> specs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    (specs[i].trained ? state.trained : state.frozen).push_back(std::move(params[i]));
  }
}

/// All parameters, from the folders of the network and of its text encoders; `named` gives the
/// folder of a part.
std::vector<runtime::Array> all_parameters(const fs::path& checkpoint, const std::string& network,
                                           const std::function<std::string(std::string)>& named,
                                           std::span<const nn::ParamSpec> specs,
                                           const runtime::Devices& devices) {
  return load_each(specs, [&](const networks::ModelSpecs& model) {
    return weights::load(checkpoint / named(model.part.empty() ? network : model.part), model.specs,
                         devices);
  });
}

std::vector<weights::Adapter> adapter_in(const fs::path& folder) {
  return {{.lora = std::make_shared<const weights::Lora>(weights::Lora::open(folder))}};
}

/// The models with the words in a folder.
BaseModels with_words(BaseModels base, const fs::path& folder) {
  load_words(folder, base.words, base.learned_rows);
  return base;
}

/// The models with the ControlNet in a folder.
BaseModels with_control(BaseModels base, const fs::path& folder) {
  base.control = folder;
  return base;
}

/// The same from an adapter's folder.
std::vector<runtime::Array> trained_additions(const fs::path& folder,
                                              std::span<const nn::ParamSpec> specs,
                                              const runtime::Devices& devices) {
  const std::vector<weights::Adapter> file = adapter_in(folder);
  std::vector<runtime::Array> additions;
  for (const networks::ModelSpecs& model : networks::by_model(specs)) {
    std::ranges::move(
        weights::load_adapters(adapters_for(file, model.part), /*seed=*/0, model.specs, devices),
        std::back_inserter(additions));
  }
  std::vector<runtime::Array> out;
  size_t i = 0;
  for (const nn::ParamSpec& spec : specs) {
    if (spec.is_low_rank()) {
      if (spec.trained) {
        out.push_back(std::move(additions[i]));
      }
      ++i;
    }
  }
  return out;
}

}  // namespace

State load_state(const fs::path& folder, std::span<const nn::ParamSpec> specs, bool ema,
                 const runtime::Devices& devices, const optimizers::Optimizer& optimizer,
                 const std::optional<BaseModels>& base, int64_t expert) {
  const std::vector<std::string> all = weights_parts(folder);
  check(expert < std::ssize(all), "[checkpoint] {} contains only {}, not both experts",
        folder.string(), all.front());
  const std::string& part = all[static_cast<size_t>(expert)];
  const bool holds_words = all.front() == kWords;
  const bool holds_control = all.front() == kControl;
  const bool holds_adapter = all.front() == kAdapter || holds_words || holds_control;
  const bool trains_control = base && base->control;
  check(holds_control == trains_control, "[checkpoint] {} contains {}, but train_controlnet {}",
        folder.string(), holds_control ? "a ControlNet" : "a network, an adapter or words",
        holds_control ? "is not given" : "trains a ControlNet");
  check(holds_words == (base && !base->words.empty()),
        "[checkpoint] {} contains {}, but textual_inversion {}", folder.string(),
        holds_words ? "words" : "a network or an adapter",
        holds_words ? "names no words" : "trains words");
  check(holds_adapter || !base,
        "[checkpoint] {} contains a complete network, but an adapter is trained (enable_lora)",
        folder.string());
  check(!holds_adapter || base,
        "[checkpoint] {} contains an adapter, but a complete network is trained\n  set "
        "enable_lora=true "
        "to continue with it",
        folder.string());
  const StateParts<nn::ParamSpec> kept = state_parts(specs, ema, optimizer);
  State state;
  set_params(state,
             holds_words
                 ? load_base(with_words(*base, folder / part), {}, /*seed=*/0, specs, devices)
             : holds_control
                 ? load_base(with_control(*base, folder / part), {}, /*seed=*/0, specs, devices)
             : base ? load_base(*base, adapter_in(folder / part), /*seed=*/0, specs, devices)
                    : all_parameters(folder, part, std::identity(), specs, devices),
             specs);
  Counts counts = read_counts(read_state_json(folder), expert);
  if (has_optimizer(folder)) {
    const fs::path saved = folder / of_expert(kOptimizer, expert);
    state.mu = load_moments(saved / "mu.safetensors", kept.mu, devices);
    state.nu = load_moments(saved / "nu.safetensors", kept.nu, devices);
  } else {
    counts[OF_MOMENTS] = 0;
    state.mu = zeros(kept.mu, devices);
    state.nu = zeros(kept.nu, devices);
  }
  if (ema) {
    const bool holds_average = has_average(folder, part);
    if (!holds_average) {
      counts[OF_AVERAGE] = 0;
    }
    const auto named = [&](const std::string& of) { return holds_average ? average_part(of) : of; };
    std::vector<nn::ParamSpec> averages = state_specs(specs);
    for (nn::ParamSpec& spec : averages) {
      if (spec.trained) {
        optimizers::set_memory({&spec, 1}, optimizer.memory());
      }
    }
    if (holds_words) {
      const BaseModels average = with_words(*base, folder / named(part));
      for (const nn::ParamSpec& spec : trained_specs(averages)) {
        state.ema.push_back(
            devices.upload(average.learned_rows.at(std::string(networks::inner_part(spec.name))),
                           spec.sharding(devices.placement()), spec.memory));
      }
    } else if (holds_control) {
      state.ema = weights::load(folder / named(part),
                                networks::by_model(trained_specs(averages)).back().specs, devices);
    } else if (base) {
      state.ema = trained_additions(folder / named(part), averages, devices);
    } else {
      State all;
      set_params(all, all_parameters(folder, part, named, averages, devices), averages);
      state.ema = std::move(all.trained);
    }
  }
  state.counts = counts_array(counts, devices);
  return state;
}

State fresh_state(std::vector<runtime::Array> params, std::span<const nn::ParamSpec> specs,
                  bool ema, const runtime::Devices& devices,
                  const optimizers::Optimizer& optimizer) {
  check(params.size() == specs.size(), "[state] {} arrays for {} parameters", params.size(),
        specs.size());
  State state;
  set_params(state, std::move(params), specs);
  std::vector<nn::ParamSpec> kept = trained_specs(specs);
  for (size_t i = 0; i < kept.size(); ++i) {
    kept[i].shape.dtype = state.trained[i].shape().dtype;
  }
  const StateParts<nn::ParamSpec> parts = state_parts(kept, ema, optimizer);
  for (size_t i = 0; i < parts.ema.size(); ++i) {
    state.ema.push_back(f32_copy(state.trained[i], devices, parts.ema[i].memory));
  }
  state.mu = zeros(parts.mu, devices);
  state.nu = zeros(parts.nu, devices);
  state.counts = counts_array({}, devices);
  return state;
}

State fresh_state(std::vector<pjrt::Buffer> params, std::span<const nn::ParamSpec> specs, bool ema,
                  const runtime::Devices& devices) {
  return fresh_state(runtime::to_arrays(std::move(params)), specs, ema, devices);
}

}  // namespace kinema::training
