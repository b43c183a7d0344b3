#include "kinema/training/checkpoint.h"

#include <limits>
#include <memory>
#include <utility>

#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/training/state_file.h"
#include "kinema/training/step.h"
#include "kinema/weights/weights.h"

namespace kinema::training {

namespace fs = std::filesystem;

namespace {

/// One list of a state to write: parameters, moments or averages.
struct Part {
  std::vector<nn::ParamSpec> specs;  // in the dtypes of the arrays
  std::vector<int64_t> owners;
  std::function<HostArray(size_t)> to_host;
};

Part part_of(std::span<const nn::ParamSpec> specs, std::vector<const StateSource::Kept*> arrays) {
  Part out{.specs = {specs.begin(), specs.end()}, .owners = {}, .to_host = {}};
  for (size_t i = 0; i < arrays.size(); ++i) {
    out.specs[i].shape.dtype = arrays[i]->dtype;
    out.owners.push_back(arrays[i]->owner);
  }
  out.to_host = [arrays = std::move(arrays)](size_t i) { return arrays[i]->to_host(); };
  return out;
}

/// Writes arrays of the specs' shapes under the keys of their layers, so that the file does not
/// depend on stacking. One stacked tensor at a time is in host memory. If several processes write
/// (their entries are not stacks), each writes its own file.
void save_tensors(const fs::path& folder, const char* stem, const Part& part,
                  const StateSource& of) {
  struct Loaded {
    size_t number = SIZE_MAX;
    HostArray array;
  };
  const auto loaded = std::make_shared<Loaded>();
  std::vector<io::TensorEntry> entries;
  for (size_t i = 0; i < part.specs.size(); ++i) {
    const Shape shape = part.specs[i].layer_shape();
    const std::vector<std::string> names = layer_names(std::span(part.specs).subspan(i, 1));
    for (size_t layer = 0; layer < names.size(); ++layer) {
      entries.push_back({names[layer], shape, [=, &part](const io::ByteSink& sink) {
                           if (loaded->number != i) {
                             loaded->array = HostArray();  // free before the next one is loaded
                             loaded->array = part.to_host(i);
                             loaded->number = i;
                           }
                           const auto size = static_cast<size_t>(shape.bytes());
                           sink(std::span(loaded->array.bytes).subspan(layer * size, size));
                         }});
    }
  }
  io::ModelFolderOptions how{
      .max_shard_bytes = std::numeric_limits<int64_t>::max(), .stem = stem, .metadata = {}};
  if (of.processes > 1) {
    how.owners = part.owners;
    how.own = of.process;
  }
  io::write_shards(folder, entries, how);
}

/// The parts that a checkpoint contains.
template <typename T>
StateParts<T> those_held(StateParts<T> parts, const Held& held) {
  if (!held.optimizer) {
    parts.mu.clear();
    parts.nu.clear();
  }
  if (!held.frozen) {
    parts.frozen.clear();
  }
  return parts;
}

/// The trained rows of words, by text encoder.
LearnedRows rows_of(std::span<const nn::ParamSpec> specs,
                    std::span<const StateSource::Kept> trained) {
  LearnedRows out;
  for (size_t i = 0; i < specs.size(); ++i) {
    out.emplace(networks::inner_part(specs[i].name), trained[i].to_host());
  }
  return out;
}

/// Writes a model's folder.
void save_folder(const fs::path& folder, const io::Json& config, const Part& part,
                 const StateSource& of) {
  if (of.processes > 1) {
    weights::save_part(folder, config, part.specs, part.to_host, part.owners, of.process);
  } else {
    weights::save(folder, config, part.specs, part.to_host);
  }
}

/// Writes the parameters of a network to the folder `name`, and those of text encoders inside it to
/// theirs, all of which are averages if `name` is that of an average.
void save_models(const fs::path& folder, const std::string& name, const networks::Network& network,
                 const StateSource& state, const std::vector<const StateSource::Kept*>& arrays) {
  const bool averages = name.ends_with(average_part(""));
  size_t at = 0;
  for (const networks::ModelSpecs& model : networks::by_model(state.specs)) {
    const auto first = arrays.begin() + static_cast<int64_t>(at);
    const Part part = part_of(model.specs, {first, first + std::ssize(model.specs)});
    at += model.specs.size();
    const fs::path own = folder / (model.part.empty() ? name
                                   : averages         ? average_part(model.part)
                                                      : model.part);
    const io::Json config =
        model.part.empty() ? network->config() : network->inner_configs().at(model.part);
    save_folder(own, config, part, state);
  }
}

/// Writes the folders of one network; returns its counts, named as in train_state.json.
io::Json save_network(const fs::path& folder, const networks::Network& network,
                      const StateSource& state, const TrainState& train, const Held& held,
                      int64_t expert) {
  using Kept = StateSource::Kept;
  const StateParts<Kept>& parts = state.parts;
  const auto save_model = [&](const std::string& name, std::span<const Kept> trained) {
    if (train.adapter) {
      if (state.process > 0) {
        return;
      }
      const Part factors = part_of(trained_specs(state.specs), pointers_to<Kept>(trained));
      weights::AdapterConfig config = *train.adapter;
      if (expert > 0) {
        config.expert = weights::kLowNoise;
      }
      weights::save_adapter(folder / name, config, factors.specs, factors.to_host);
      return;
    }
    if (!train.words.empty()) {
      if (state.process == 0) {
        save_words(folder / name, train.words, rows_of(trained_specs(state.specs), trained));
      }
      return;
    }
    if (train.weights == kControl) {
      const networks::ModelSpecs control = networks::by_model(trained_specs(state.specs)).back();
      save_folder(folder / name, network->inner_configs().at(control.part),
                  part_of(control.specs, pointers_to<Kept>(trained)), state);
      return;
    }
    save_models(folder, name, network, state, in_order<Kept>(state.specs, parts.frozen, trained));
  };
  const std::string name = of_expert(train.weights, expert);
  save_model(name, parts.trained);
  if (held.optimizer) {
    const fs::path optimizer = folder / of_expert(kOptimizer, expert);
    fs::create_directories(optimizer);
    const auto save_moments = [&](const char* file, std::span<const nn::ParamSpec> specs,
                                  std::span<const Kept> kept) {
      if (!kept.empty()) {
        save_tensors(optimizer, file, part_of(specs, pointers_to<Kept>(kept)), state);
      }
    };
    save_moments("mu", state.moments.mu, parts.mu);
    save_moments("nu", state.moments.nu, parts.nu);
  }
  if (!parts.ema.empty()) {
    save_model(average_part(name), parts.ema);
  }
  const HostArray counts = parts.counts->to_host();
  io::Json named = io::Json::object();
  for (const Count count : {UPDATES, OF_MOMENTS, OF_AVERAGE}) {
    if ((count != OF_MOMENTS || held.optimizer) && (count != OF_AVERAGE || !parts.ema.empty())) {
      named.set(count_name(count, expert),
                int64_t{counts.as<int32_t>()[static_cast<size_t>(count)]});
    }
  }
  return named;
}

}  // namespace

StateSource source_of(const StateView& state) {
  optimizers::Moments<nn::ParamSpec> moments = state.moments;
  if (moments.mu.empty() && moments.nu.empty()) {
    moments = {.mu = trained_specs(state.specs), .nu = trained_specs(state.specs)};
  }
  return {.specs = {state.specs.begin(), state.specs.end()},
          .parts = state.parts.map([](const runtime::Array& array) {
            return StateSource::Kept{.dtype = array.shape().dtype,
                                     .to_host = [&array] { return array.to_host(); }};
          }),
          .moments = std::move(moments)};
}

StateSource host_copy(const StateView& state, const Held& held) {
  return host_copy(source_of(state), held);
}

StateSource host_copy(const StateSource& state, const Held& held) {
  StateSource out{.specs = state.specs,
                  .parts = {},
                  .moments = state.moments,
                  .process = state.process,
                  .processes = state.processes};
  out.parts = those_held(state.parts, held).map([](const StateSource::Kept& kept) {
    const auto copy = std::make_shared<HostArray>(kept.to_host());
    return StateSource::Kept{.dtype = kept.dtype, .to_host = [copy] { return std::move(*copy); }};
  });
  return out;
}

int64_t host_bytes(const StateView& state, const Held& held) {
  return checkpoint_bytes(state.parts.map([](const runtime::Array& array) {
    return nn::ParamSpec{.name = {}, .shape = array.shape()};
  }),
                          held);
}

int64_t checkpoint_bytes(const StateParts<nn::ParamSpec>& parts, const Held& held) {
  const StateParts<nn::ParamSpec> written = those_held(parts, held);
  int64_t sum = 0;
  for (const nn::ParamSpec* spec : written.all()) {
    sum += spec->shape.bytes();
  }
  return sum;
}

void save_state(const fs::path& folder, const networks::Network& network, const StateView& state,
                const TrainState& train, const Held& held) {
  save_state(folder, network, source_of(state), train, held);
}

void save_state(const fs::path& folder, const networks::Network& network, const StateSource& state,
                const TrainState& train, const Held& held) {
  save_states(folder, network, std::span(&state, 1), train, held);
}

void save_states(const fs::path& folder, const networks::Network& network,
                 std::span<const StateSource> states, const TrainState& train, const Held& held) {
  std::vector<io::Json> counts;
  for (const StateSource& state : states) {
    counts.push_back(save_network(folder, network, state, train, held, std::ssize(counts)));
  }
  if (states.front().process == 0) {
    write_state_json(folder, train, counts);
  }
}

}  // namespace kinema::training
