#include "kinema/training/train_state.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/training/state_file.h"

namespace kinema::training {

namespace fs = std::filesystem;

namespace {

constexpr const char* kState = "train_state.json";
constexpr const char* kAverage = "_ema";

/// The names of counts in train_state.json.
constexpr std::array<const char*, COUNTS> kCounts = {"updates", "updates_of_moments",
                                                     "updates_of_average"};

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

}  // namespace

std::string of_expert(const std::string& name, int64_t expert) {
  return expert == 0 ? name : name + "_2";
}

io::Json read_state_json(const fs::path& folder) {
  io::Json json = io::Json::read(folder / kState);
  check(json.at("format").as_int() == 1, "[checkpoint] {} is of a later version of kinema",
        (folder / kState).string());
  return json;
}

std::string count_name(Count count, int64_t expert) { return of_expert(kCounts.at(count), expert); }

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

void write_state_json(const fs::path& folder, const TrainState& train,
                      std::span<const io::Json> counts) {
  io::write_file(folder / kState, to_json(train, counts).dump() + "\n");
}

std::vector<std::string> weights_parts(const fs::path& folder) {
  std::vector<std::string> out;
  const char* first = fs::exists(folder / kAdapter)   ? kAdapter
                      : fs::exists(folder / kWords)   ? kWords
                      : fs::exists(folder / kControl) ? kControl
                      : fs::exists(folder / "unet")   ? "unet"
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

bool has_average(const fs::path& folder, const std::string& part) {
  return fs::exists(folder / average_part(part));
}

bool has_optimizer(const fs::path& folder) { return fs::exists(folder / kOptimizer); }

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

}  // namespace kinema::training
