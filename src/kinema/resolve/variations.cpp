#include "kinema/resolve/variations.h"

#include <fmt/format.h>

#include "kinema/graph/scan.h"

namespace kinema::resolve {

std::string Change::text() const {
  std::string out;
  for (const auto& [key, value] : keys) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", key, value);
  }
  return out;
}

Settings Change::on(const Settings& settings) const {
  Settings out = settings;
  for (const auto& [key, value] : keys) {
    out = out.with(key, value);
  }
  return out;
}

Change Change::with(const Change& other) const {
  Change out = *this;
  out.keys.insert(out.keys.end(), other.keys.begin(), other.keys.end());
  return out;
}

std::optional<int64_t> fewer_samples(int64_t samples, int64_t shards, double most) {
  std::optional<int64_t> fewest;
  for (int64_t parts = 2; parts <= samples; ++parts) {
    const int64_t each = samples / parts;
    if (samples % parts != 0 || each % shards != 0) {
      continue;
    }
    fewest = each;
    if (static_cast<double>(each) <= most) {
      break;
    }
  }
  return fewest;
}

namespace {

/// The same number of samples per step in smaller batches.
std::optional<Change> smaller_batch(const config::Loaded& loaded, const LargeStep& step) {
  const config::OptimizerConfig& o = loaded.config.optimizer;
  const int64_t samples = config::batch_sizes(loaded.config, step.devices).train;
  const int64_t shards = step.data * step.fsdp;
  const auto fewer = fewer_samples(samples, samples % shards == 0 ? shards : 1,
                                   step.share * static_cast<double>(samples));
  if (!fewer) {
    return std::nullopt;
  }
  const std::string parts = std::to_string(o.gradient_accumulation_steps * (samples / *fewer));
  const double each = static_cast<double>(*fewer) / static_cast<double>(step.devices);
  return Change{
      {o.global_batch_size > 0
           ? std::pair<std::string, std::string>("global_batch_size", std::to_string(*fewer))
           : std::pair<std::string, std::string>("per_device_batch_size", fmt::format("{}", each)),
       {"gradient_accumulation_steps", parts}}};
}

}  // namespace

std::vector<Change> smaller_training(const Settings& settings, const LargeStep& step) {
  const config::Config& config = settings;
  const bool adapter = config.model.enable_lora;
  const bool scanned = config.model.scan_layers && config.runtime.jit;
  const bool is_full = remat_policy(config.model.remat_policy).kind == RematPolicy::Kind::FULL;
  std::vector<Change> out;
  const auto add = [&](bool does, const char* key, const char* value) {
    if (does) {
      out.push_back({{{key, value}}});
    }
  };
  add(step.accelerator && step.idle_on_device, "idle_expert", "host");
  add(!is_full, "remat_policy", "FULL");
  if (const auto batch = smaller_batch(settings, step)) {
    out.push_back(*batch);
  }
  if (step.data > 1) {
    out.push_back({{{"ici_data_parallelism", "1"},
                    {"ici_fsdp_parallelism", std::to_string(step.data * step.fsdp)}}});
  }
  const bool on_host = config.model.weights_memory == config::WeightsMemory::HOST;
  add(step.accelerator && scanned && adapter && !on_host, "weights_memory", "host");
  add(step.accelerator && scanned && !adapter &&
          config.optimizer.optimizer_memory != config::OptimizerMemory::HOST,
      "optimizer_memory", "host");
  add(adapter && config.model.weights_storage == config::WeightsStorage::FLOATS, "weights_storage",
      "float8_e4m3fn");
  add(step.accelerator && is_full, "remat_policy", "HIDDEN_STATE_WITH_OFFLOAD");
  add(!adapter && config.model.weights_dtype != config::Dtype::FLOAT32 &&
          config.optimizer.train_state_dtype == config::StateDtype::FLOAT32,
      "train_state_dtype", "weights_dtype");
  add(!adapter && config.optimizer.optimizer == config::Optimizer::ADAMW, "optimizer", "adamw8bit");
  return out;
}

std::vector<Change> smaller_generation(const Settings& settings, const LargeStep& step) {
  const config::Config& config = settings;
  std::vector<Change> out;
  const int64_t samples = config.generate.generate_batch_size;
  const int64_t shards = step.data * step.fsdp;
  if (const auto fewer = fewer_samples(samples, samples % shards == 0 ? shards : 1,
                                       step.share * static_cast<double>(samples))) {
    out.push_back({{{"generate_batch_size", std::to_string(*fewer)}}});
  }
  if (!config.generate.guidance_in_two_passes && step.guided) {
    out.push_back({{{"guidance_in_two_passes", "true"}}});
  }
  if (step.data > 1) {
    out.push_back({{{"ici_data_parallelism", "1"},
                    {"ici_fsdp_parallelism", std::to_string(step.data * step.fsdp)}}});
  }
  if (step.accelerator && config.model.scan_layers &&
      config.model.weights_memory == config::WeightsMemory::DEVICE) {
    out.push_back({{{"weights_memory", "host"}}});
  }
  if (config.model.weights_storage == config::WeightsStorage::FLOATS) {
    out.push_back({{{"weights_storage", "float8_e4m3fn"}}});
  }
  return out;
}

Settings with_candidate(const Settings& settings, const planning::Candidate& candidate,
                        bool trains) {
  const auto& [data, fsdp, context, tensor] = candidate.mesh;
  return Change{
      {{"ici_data_parallelism", std::to_string(data)},
       {"ici_fsdp_parallelism", std::to_string(fsdp)},
       {"ici_context_parallelism", std::to_string(context)},
       {"ici_tensor_parallelism", std::to_string(tensor)},
       {"remat_policy", candidate.remat},
       {trains ? "global_batch_size" : "generate_batch_size", std::to_string(candidate.batch)}}}
      .on(settings);
}

int64_t samples_per_step(const config::Config& config, int64_t devices, bool trains) {
  return trains ? config::batch_sizes(config, devices).train
                : config.generate.generate_batch_size.value;
}

}  // namespace kinema::resolve
