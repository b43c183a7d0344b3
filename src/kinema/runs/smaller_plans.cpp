#include "kinema/runs/smaller_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/runs/memory_advice.h"

namespace kinema::runs {
namespace {

using config::Loaded;

/// Keys to set on top of a configuration.
struct Change {
  std::vector<std::pair<std::string, std::string>> keys;

  std::string text() const {
    std::string out;
    for (const auto& [key, value] : keys) {
      out += fmt::format("{}{}={}", out.empty() ? "" : " ", key, value);
    }
    return out;
  }
  Loaded on(Loaded loaded) const {
    for (const auto& [key, value] : keys) {
      config::set(loaded, key, value);
    }
    return loaded;
  }
  Change with(const Change& other) const {
    Change out = *this;
    out.keys.insert(out.keys.end(), other.keys.begin(), other.keys.end());
    return out;
  }
};

int64_t axis_size(const PlannedStep& step, std::string_view name) {
  for (const auto& [axis, size] : step.place.active()
                                      ? step.place.mesh().axes.axes
                                      : std::vector<std::pair<std::string, int64_t>>()) {
    if (axis == name) {
      return size;
    }
  }
  return 1;
}

/// What is left of a device's memory for all but the arguments, as a share of what the rest of the
/// step takes; 1 where it would fit.
double room(const planning::Report& report, const planning::LeastMemory& least) {
  const auto rest = static_cast<double>(report.total() - least.arguments);
  const auto free = static_cast<double>(report.limit() - least.arguments);
  return rest <= 0 ? 1 : free / rest;
}

/// As many samples a step in smaller parts.
std::optional<Change> smaller_batch(const Loaded& loaded, int64_t devices, const PlannedStep& step,
                                    double share) {
  const config::OptimizerConfig& o = loaded.config.optimizer;
  const int64_t samples = config::batch_sizes(loaded.config, devices).train;
  const int64_t shards = axis_size(step, "data") * axis_size(step, "fsdp");
  const auto fewer = fewer_samples(samples, samples % shards == 0 ? shards : 1,
                                   share * static_cast<double>(samples));
  if (!fewer) {
    return std::nullopt;
  }
  const std::string parts = std::to_string(o.gradient_accumulation_steps * (samples / *fewer));
  const double each = static_cast<double>(*fewer) / static_cast<double>(devices);
  return Change{
      {o.global_batch_size > 0
           ? std::pair<std::string, std::string>("global_batch_size", std::to_string(*fewer))
           : std::pair<std::string, std::string>("per_device_batch_size", fmt::format("{}", each)),
       {"gradient_accumulation_steps", parts}}};
}

std::vector<Change> smaller_training(const Loaded& loaded, const PlanOptions& options,
                                     const PlannedStep& step, double share) {
  const config::Config& config = loaded.config;
  const bool accelerator = options.target.chip.family != planning::Family::CPU;
  const bool adapter = config.model.enable_lora;
  const bool scanned = config.model.scan_layers && config.runtime.jit;
  const bool is_full = remat_policy(config.model.remat_policy).kind == RematPolicy::Kind::FULL;
  std::vector<Change> out;
  const auto add = [&](bool does, const char* key, const char* value) {
    if (does) {
      out.push_back({{{key, value}}});
    }
  };
  add(accelerator && step.idle.device > 0, "idle_expert", "host");
  add(!is_full, "remat_policy", "FULL");
  if (const auto batch = smaller_batch(loaded, options.target.devices, step, share)) {
    out.push_back(*batch);
  }
  if (axis_size(step, "data") > 1) {
    out.push_back({{{"ici_data_parallelism", "1"},
                    {"ici_fsdp_parallelism",
                     std::to_string(axis_size(step, "data") * axis_size(step, "fsdp"))}}});
  }
  const bool on_host = config.model.weights_memory == config::WeightsMemory::HOST;
  add(accelerator && scanned && adapter && !on_host, "weights_memory", "host");
  add(accelerator && scanned && !adapter &&
          config.optimizer.optimizer_memory != config::OptimizerMemory::HOST,
      "optimizer_memory", "host");
  add(adapter && config.model.weights_storage == config::WeightsStorage::FLOATS, "weights_storage",
      "float8_e4m3fn");
  add(accelerator && is_full, "remat_policy", "HIDDEN_STATE_WITH_OFFLOAD");
  add(!adapter && config.model.weights_dtype != config::Dtype::FLOAT32 &&
          config.optimizer.train_state_dtype == config::StateDtype::FLOAT32,
      "train_state_dtype", "weights_dtype");
  add(!adapter && config.optimizer.optimizer == config::Optimizer::ADAMW, "optimizer", "adamw8bit");
  return out;
}

std::vector<Change> smaller_generation(const Loaded& loaded, const PlanOptions& options,
                                       const PlannedStep& step, double share) {
  const config::Config& config = loaded.config;
  const bool accelerator = options.target.chip.family != planning::Family::CPU;
  std::vector<Change> out;
  const int64_t samples = config.generate.generate_batch_size;
  const int64_t shards = axis_size(step, "data") * axis_size(step, "fsdp");
  if (const auto fewer = fewer_samples(samples, samples % shards == 0 ? shards : 1,
                                       share * static_cast<double>(samples))) {
    out.push_back({{{"generate_batch_size", std::to_string(*fewer)}}});
  }
  if (!config.generate.guidance_in_two_passes &&
      step.inputs.find("guidance") != std::string::npos) {
    out.push_back({{{"guidance_in_two_passes", "true"}}});
  }
  if (axis_size(step, "data") > 1) {
    out.push_back({{{"ici_data_parallelism", "1"},
                    {"ici_fsdp_parallelism",
                     std::to_string(axis_size(step, "data") * axis_size(step, "fsdp"))}}});
  }
  if (accelerator && config.model.scan_layers &&
      config.model.weights_memory == config::WeightsMemory::DEVICE) {
    out.push_back({{{"weights_memory", "host"}}});
  }
  if (config.model.weights_storage == config::WeightsStorage::FLOATS) {
    out.push_back({{{"weights_storage", "float8_e4m3fn"}}});
  }
  return out;
}

/// Tries changes in turn, and remembers what came of them.
class Search {
 public:
  Search(const Loaded& loaded, const PlanOptions& options, const PlannedStep& step, const Job& job,
         const std::function<planning::Report(const Loaded&)>& plan, planning::Report& report)
      : loaded_(loaded),
        options_(options),
        job_(job),
        plan_(plan),
        report_(report),
        first_(least_memory(step)) {}

  /// Compiles it where it may fit; true where it does.
  bool fits(const Change& change) {
    if (std::ssize(report_.tried) >= kMost || !may_fit(change)) {
      return false;
    }
    planning::Remedy remedy{.change = change.text()};
    try {
      const planning::Report made = plan_(change.on(loaded_));
      remedy.total = made.total();
      remedy.fits = made.fits();
    } catch (const Stopped&) {
      throw;
    } catch (const Error&) {
      return false;  // a mesh that does not divide, or a key that does not go with another
    }
    report_.tried.push_back(remedy);
    return remedy.fits;
  }

  static constexpr int64_t kMost = 3;  // compiles

 private:
  /// By the arguments, which are certain, and by the rest as it was, in proportion to what loops
  /// keep.
  bool may_fit(const Change& change) const {
    try {
      const planning::LeastMemory least = least_memory(
          build_planned_step(change.on(loaded_), options_.target, options_.mode, job_));
      const auto rest = static_cast<double>(report_.total() - first_.arguments);
      const double kept = first_.stacks == 0 ? 1.0
                                             : static_cast<double>(least.stacks) /
                                                   static_cast<double>(first_.stacks);
      const double expected = static_cast<double>(least.arguments) + kept * rest;
      return report_.limit() == 0 || expected <= static_cast<double>(report_.limit());
    } catch (const Error&) {
      return false;
    }
  }

  const Loaded& loaded_;
  const PlanOptions& options_;
  const Job& job_;
  const std::function<planning::Report(const Loaded&)>& plan_;
  planning::Report& report_;
  planning::LeastMemory first_;
};

}  // namespace

planning::LeastMemory least_memory(const PlannedStep& step) {
  return planning::least_memory(*step.graph, step.outputs,
                                step.place.active() ? step.place.mesh().axes : MeshAxes(),
                                runtime::has_own_memory(step.target.platform));
}

void find_smaller_plan(const Loaded& loaded, const PlanOptions& options, const PlannedStep& step,
                       const Job& job, const std::function<planning::Report(const Loaded&)>& plan,
                       planning::Report& report) {
  const double share = room(report, least_memory(step));
  const std::vector<Change> changes = options.mode == PlanMode::TRAIN
                                          ? smaller_training(loaded, options, step, share)
                                          : smaller_generation(loaded, options, step, share);
  if (!plan) {
    for (const Change& change : changes) {
      report.untried.push_back(change.text());
    }
    return;
  }
  job.notice(fmt::format(
      "{} does not fit {}: what takes less is compiled, up to {} times, each for about as long as "
      "this took; --no-remedies leaves that out",
      report.what, options.target.name, Search::kMost));
  Search search(loaded, options, step, job, plan, report);
  for (const Change& change : changes) {  // one alone
    if (search.fits(change)) {
      return;
    }
  }
  Change all;
  for (const Change& change : changes) {  // each beside those before it
    const bool set_before = std::ranges::any_of(
        all.keys, [&](const auto& key) { return key.first == change.keys.front().first; });
    all = set_before ? all : all.with(change);
    if (all.keys.size() > change.keys.size() && search.fits(all)) {
      return;
    }
  }
}

}  // namespace kinema::runs
