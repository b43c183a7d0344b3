#include "kinema/training/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/training/step.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/weights.h"

namespace kinema::training {

namespace fs = std::filesystem;

namespace {

constexpr const char* kState = "train_state.json";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kAverage = "_ema";

/// The name for the second of two experts.
std::string of_expert(const std::string& name, int64_t expert) {
  return expert == 0 ? name : name + "_2";
}

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

/// Indexed by Count.
using Counts = std::array<int32_t, COUNTS>;

runtime::Array counts_array(const Counts& counts, const runtime::Devices& devices) {
  return devices.upload(HostArray::from<int32_t>(DType::S32, {COUNTS}, counts));
}

/// The names of counts in train_state.json.
constexpr std::array<const char*, COUNTS> kCounts = {"updates", "updates_of_moments",
                                                     "updates_of_average"};

/// Missing counts are equal to the total of updates: an earlier version wrote only that.
Counts read_counts(const io::Json& state, int64_t expert) {
  Counts out{};
  for (size_t i = 0; i < out.size(); ++i) {
    const io::Json* named = state.find(of_expert(kCounts[i], expert));
    const io::Json& count = named != nullptr ? *named : state.at(of_expert(kCounts[0], expert));
    const int64_t value = count.as_int();
    check(value >= 0 && value <= std::numeric_limits<int32_t>::max(),
          "[checkpoint] {} is {}, expected a number of updates", of_expert(kCounts[i], expert),
          value);
    out[i] = static_cast<int32_t>(value);
  }
  return out;
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

io::Json to_json(const TrainState& train, std::span<const io::Json> counts) {
  io::Json settings = io::Json::object();
  for (const auto& [key, value] : train.settings) {
    settings.set(key, io::Json::parse(value, key));
  }
  io::Json out = io::Json::object({{"format", 1}, {"step", train.step}});
  for (const io::Json& of_network : counts) {
    for (const auto& [name, count] : of_network.members()) {
      out.set(name, count);
    }
  }
  out.set("data_position", train.data_position).set("seed", train.seed);
  if (const EarlyStopping& early_stopping = train.early_stopping;
      early_stopping.best || early_stopping.without > 0) {
    io::Json found = io::Json::object({{"without_gain", early_stopping.without}});
    if (early_stopping.best) {
      found.set("best_loss", *early_stopping.best).set("best_step", early_stopping.best_step);
    }
    out.set("evaluations", std::move(found));
  }
  return out.set("settings", std::move(settings));
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

/// Writes the parameters of a network to the folder `name`, and those of text encoders inside it to
/// theirs, all of which are averages if `name` is that of an average.
void save_models(const fs::path& folder, const std::string& name, const networks::Network& network,
                 const StateSource& state, const std::vector<const StateSource::Kept*>& arrays) {
  const bool averages = name.ends_with(kAverage);
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
    if (state.processes > 1) {
      weights::save_part(own, config, part.specs, part.to_host, part.owners, state.process);
    } else {
      weights::save(own, config, part.specs, part.to_host);
    }
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
      named.set(of_expert(kCounts.at(count), expert),
                int64_t{counts.as<int32_t>()[static_cast<size_t>(count)]});
    }
  }
  return named;
}

EarlyStopping read_early_stopping(const io::Json& state) {
  EarlyStopping out;
  if (const io::Json* found = state.find("evaluations")) {
    out.without = found->at("without_gain").as_int();
    if (const io::Json* best = found->find("best_loss")) {
      out.best = best->as_number();
      out.best_step = found->at("best_step").as_int();
    }
  }
  return out;
}

io::Json read_state_json(const fs::path& folder) {
  io::Json json = io::Json::read(folder / kState);
  check(json.at("format").as_int() == 1, "[checkpoint] {} is of a later version of kinema",
        (folder / kState).string());
  return json;
}

/// The settings of a checkpoint of an earlier version: a part of them, as text, and sizes of the
/// model as JSON. Their other names are not keys.
std::map<std::string, std::string> read_identity(const io::Json& identity) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : identity.members()) {
    const std::string& text = value.as_string();
    try {
      const io::Json json = io::Json::parse(text, key);
      if (!json.is_null()) {  // a size of something that the model does not have
        out[key] = json.dump(-1);
      }
    } catch (const Error&) {
      out[key] = io::Json(text).dump(-1);
    }
  }
  if (const auto type = out.find("dataset_type");
      type != out.end() && (type->second == "\"tf\"" || type->second == "\"grain\"")) {
    type->second = "\"tfrecord\"";  // its other names
  }
  const auto samples = out.find("samples per step");
  const auto accumulation = out.find("gradient_accumulation_steps");
  if (samples != out.end() && accumulation != out.end()) {
    const int64_t divisor = io::Json::parse(accumulation->second, "accumulation").as_int();
    const int64_t whole = io::Json::parse(samples->second, "samples per step").as_int();
    out["global_batch_size"] = std::to_string(whole / std::max<int64_t>(divisor, 1));
  }
  return out;
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
    io::write_file(folder / kState, to_json(train, counts).dump() + "\n");
  }
}

std::vector<std::string> weights_parts(const fs::path& folder) {
  std::vector<std::string> out;
  const char* first = fs::exists(folder / kAdapter) ? kAdapter
                      : fs::exists(folder / kWords) ? kWords
                      : fs::exists(folder / "unet") ? "unet"
                                                    : "transformer";
  for (const int64_t expert : {0, 1}) {
    if (std::string part = of_expert(first, expert); fs::exists(folder / part)) {
      out.push_back(std::move(part));
    }
  }
  return out.empty() ? std::vector<std::string>{first} : out;
}

std::string weights_part(const fs::path& folder) { return weights_parts(folder).front(); }

std::string average_part(const std::string& weights) { return weights + kAverage; }

TrainState read_train_state(const fs::path& folder) {
  const io::Json json = read_state_json(folder);
  TrainState train;
  train.step = json.at("step").as_int();
  train.data_position = json.at("data_position").as_int();
  train.seed = json.at("seed").as_int();
  train.weights = weights_part(folder);
  train.early_stopping = read_early_stopping(json);
  if (const io::Json* settings = json.find("settings")) {
    for (const auto& [key, value] : settings->members()) {
      train.settings[key] = value.dump(-1);
    }
  } else {
    train.settings = read_identity(json.at("identity"));
  }
  return train;
}

std::string TrainState::setting(const std::string& key) const {
  const auto found = settings.find(key);
  if (found == settings.end()) {
    return "";
  }
  const io::Json value = io::Json::parse(found->second, key);
  return value.is_string() ? value.as_string() : found->second;
}

bool has_average(const fs::path& folder, const std::string& part) {
  return fs::exists(folder / average_part(part));
}

bool has_optimizer(const fs::path& folder) { return fs::exists(folder / kOptimizer); }

State load_state(const fs::path& folder, std::span<const nn::ParamSpec> specs, bool ema,
                 const runtime::Devices& devices, const optimizers::Optimizer& optimizer,
                 const std::optional<BaseModels>& base, int64_t expert) {
  const std::vector<std::string> all = weights_parts(folder);
  check(expert < std::ssize(all), "[checkpoint] {} contains only {}, not both experts",
        folder.string(), all.front());
  const std::string& part = all[static_cast<size_t>(expert)];
  const bool holds_words = all.front() == kWords;
  const bool holds_adapter = all.front() == kAdapter || holds_words;
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
