#include "kinema/runs/compiled_trainer.h"

#include <fmt/core.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/runtime/environment.h"
#include "kinema/training/memory.h"
#include "kinema/training/network_model.h"

namespace kinema::runs {
namespace {

constexpr const char* kIdleOnHost = "idle_expert=host";

bool is_host(const runtime::Devices& devices) { return devices.client().platform_name() == "cpu"; }

/// Whether the waiting expert could make way. On a CPU it would not get away.
bool may_go_to_host(const std::optional<training::TwoExperts>& two,
                    const runtime::Devices& devices) {
  return two && !two->idle_on_host && !is_host(devices);
}

/// What an expert takes of each device while it waits; on a CPU the host's memory is that.
int64_t waiting_bytes(const training::StateParts<nn::ParamSpec>& state,
                      const std::optional<training::TwoExperts>& two,
                      const runtime::Devices& devices) {
  if (!two) {
    return 0;
  }
  const training::IdleBytes idle =
      training::idle_bytes(state, devices.placement(), two->idle_on_host);
  return idle.device + (is_host(devices) ? idle.host / static_cast<int64_t>(devices.count()) : 0);
}

int64_t bytes_with(const training::Trainer& trainer,
                   const std::optional<training::TwoExperts>& two) {
  return trainer.step_bytes() + waiting_bytes(trainer.state_parts(), two, trainer.devices());
}

/// Ways to take less memory, those that change no loss first. Each is compiled when it is asked.
std::vector<training::Alternative> alternatives(const config::Config& config,
                                                const TrainerParts& parts, const Job& job) {
  std::vector<training::Alternative> out;
  std::string change;
  TrainerParts now = parts;
  now.trainer.program.saved.clear();
  now.trainer.program.dump.clear();
  const auto add = [&](const std::string& key) {
    change += (change.empty() ? "" : " ") + key;
    out.push_back({change, [now, job] { return bytes_with(*compiled(now, job), now.two); }});
  };
  if (may_go_to_host(now.two, parts.devices)) {
    now.two->idle_on_host = true;
    add(kIdleOnHost);
  }
  if (parts.what.options.remat.kind != RematPolicy::Kind::FULL) {
    now.what.options.remat = {.kind = RematPolicy::Kind::FULL};
    add("remat_policy=FULL");
  }
  const double samples = config.optimizer.per_device_batch_size;
  if (config.optimizer.global_batch_size <= 0 && samples >= 2 && std::fmod(samples, 2) == 0) {
    now.what.step.accumulation *= 2;
    add(fmt::format("per_device_batch_size={} gradient_accumulation_steps={}", samples / 2,
                    now.what.step.accumulation));
  }
  if (now.what.step.state == training::StateDType::F32 &&
      now.what.options.weights_dtype != DType::F32) {
    now.what.step.state = training::StateDType::WEIGHTS;
    add("train_state_dtype=weights_dtype");
  }
  if (now.what.step.optimizer == training::OptimizerKind::ADAMW) {
    now.what.step.optimizer = training::OptimizerKind::ADAMW8BIT;
    add("optimizer=adamw8bit");
  }
  return out;
}

/// What waits on the host must fit there.
void check_host(const training::StateParts<nn::ParamSpec>& state,
                const std::optional<training::TwoExperts>& two, const runtime::Devices& devices) {
  if (!two || is_host(devices)) {
    return;
  }
  const int64_t wanted = training::idle_bytes(state, devices.placement(), two->idle_on_host).host;
  const int64_t free = runtime::available_memory_bytes();
  constexpr double kGiga = 1e9;
  check(wanted <= free,
        "[train] idle_expert=host: the expert that waits takes {:.1f} GB, but {:.1f} GB of the "
        "host's memory are free\n  enable_lora=true or optimizer=adamw8bit takes less",
        static_cast<double>(wanted) / kGiga, static_cast<double>(free) / kGiga);
}

}  // namespace

std::unique_ptr<training::Trainer> compiled(const TrainerParts& parts, const Job& job) {
  const TrainingStep& what = parts.what;
  const training::Model network = training::network_model(what.network, what.options);
  auto out =
      std::make_unique<training::Trainer>(parts.devices, what.specs, network, parts.batches[0],
                                          what.step, training::State(), parts.trainer);
  for (const training::BatchShapes& batch : parts.batches.subspan(1)) {
    if (job.stop_requested()) {
      break;
    }
    out->add_shapes(network, batch);
  }
  return out;
}

void check_trainer(const training::Trainer& trainer, const config::Config& config,
                   const TrainerParts& parts, const Job& job) {
  training::check_fits("a step with its state", bytes_with(trainer, parts.two), parts.devices,
                       alternatives(config, parts, job));
}

void check_state(std::span<const nn::ParamSpec> specs,
                 const training::StateParts<nn::ParamSpec>& state, bool average,
                 const training::Optimizer& optimizer,
                 const std::optional<training::TwoExperts>& two, const runtime::Devices& devices) {
  const int64_t own = training::state_bytes(state, devices.placement());
  std::vector<training::Alternative> smaller;
  if (may_go_to_host(two, devices)) {
    smaller.push_back({kIdleOnHost, [own] { return own; }});
  }
  // Two bytes a number.
  std::vector<nn::ParamSpec> narrow(specs.begin(), specs.end());
  for (nn::ParamSpec& spec : narrow) {
    spec.shape.dtype = DType::BF16;
  }
  const auto narrow_state = training::state_parts(narrow, average, optimizer);
  smaller.push_back({"weights_dtype=bfloat16 train_state_dtype=weights_dtype", [&] {
                       return training::state_bytes(narrow_state, devices.placement()) +
                              waiting_bytes(narrow_state, two, devices);
                     }});
  training::check_fits("the parameters with the optimizer's state",
                       own + waiting_bytes(state, two, devices), devices, smaller);
  check_host(state, two, devices);
}

}  // namespace kinema::runs
