#include "kinema/plans/memory_advice.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/model_source/model_options.h"
#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/minimum_memory.h"
#include "kinema/planning/traffic.h"
#include "kinema/resolve/variations.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"
#include "kinema/training/memory.h"

namespace kinema::plans {
namespace {

using Two = std::optional<training::TwoExperts>;

constexpr const char* kIdleOnHost = "idle_expert=host";
constexpr double kGb = 1e9;

double gb(int64_t bytes) { return static_cast<double>(bytes) / kGb; }

bool has_device_memory(const runtime::Devices& devices) {
  return runtime::has_device_memory(devices.client());
}

/// True if the idle expert could be offloaded. On a CPU, host memory is the device's memory.
bool may_go_to_host(const Two& two, const runtime::Devices& devices) {
  return two && !two->idle_on_host && has_device_memory(devices);
}

/// Bytes per device of the idle expert, including host memory on a CPU.
int64_t idle_bytes(const training::StateParts<nn::ParamSpec>& state, const Two& two,
                   const runtime::Devices& devices) {
  if (!two) {
    return 0;
  }
  const int64_t host = training::idle_host_bytes(state, devices, two->idle_on_host);
  return training::idle_bytes(state, devices.placement(), two->idle_on_host).device +
         (has_device_memory(devices) ? 0 : host / static_cast<int64_t>(devices.count()));
}

int64_t step_bytes(const training::Trainer& trainer, const Two& two) {
  return trainer.step_bytes() + idle_bytes(trainer.state_parts(), two, trainer.devices());
}

/// Bytes per device of a step's state, including the idle expert.
int64_t held_bytes(const resolve::TrainingStep& what, const Two& two,
                   const runtime::Devices& devices) {
  const auto parts =
      training::state_parts(training::state_specs(what.specs, what.step.state),
                            what.step.ema.is_on(), *training::make_optimizer(what.step));
  const mesh::Placement& place = devices.placement();
  return training::state_bytes(parts, place) -
         (has_device_memory(devices) ? training::offloaded_bytes(parts, place) : 0) +
         idle_bytes(parts, two, devices);
}

/// Applies weights_memory=host.
void keep_weights_on_host(resolve::TrainingStep& what) {
  what.options.weights_memory = Memory::HOST;
  const std::vector<nn::ParamSpec> waiting = what.network->parameters(what.options);
  for (size_t i = 0; i < waiting.size(); ++i) {
    what.specs[i].memory = waiting[i].memory;
  }
}

/// Adds smaller batches with more gradient accumulation, for the same samples per step: the largest
/// batch that should fit by its memory per sample, then a half and a quarter of it.
void add_smaller_batches(const resolve::Settings& config, int64_t wanted, TrainerParts& now,
                         std::string& change, const std::function<void(const std::string&)>& add) {
  const std::string before = change;
  const int64_t accumulation = now.what.step.accumulation;
  const int64_t samples = now.what.samples;
  const int64_t state = held_bytes(now.what, now.two, now.devices);
  const double share = static_cast<double>(runtime::free_bytes(now.devices) - state) /
                       static_cast<double>(std::max<int64_t>(1, wanted - state));
  int64_t last = 0;
  for (const double part : {1.0, 0.5, 0.25}) {
    const std::optional<int64_t> fewer =
        resolve::fewer_samples(samples, now.what.options.place.parts("activation_batch"),
                               part * share * static_cast<double>(samples));
    if (!fewer || *fewer == std::exchange(last, *fewer)) {
      return;
    }
    change = before;
    now.what.step.accumulation = accumulation * (samples / *fewer);
    add(fmt::format("{} gradient_accumulation_steps={}",
                    resolve::batch_argument(config, *fewer, now.devices.total()),
                    now.what.step.accumulation));
  }
}

/// A lower bound of the bytes per device of a step.
int64_t least_bytes(const training::StepGraph& step, const Two& two,
                    const runtime::Devices& devices) {
  const mesh::Placement& place = devices.placement();
  const planning::MinimumMemory least = planning::minimum_memory(
      *step.graph, step.outputs, place.active() ? place.mesh().axes : MeshAxes(),
      has_device_memory(devices));
  return least.bytes() + idle_bytes(step.state, two, devices);
}

int64_t least_bytes(const TrainerParts& parts) {
  int64_t most = 0;
  for (const training::BatchShapes& batch : parts.batches) {
    most = std::max(most, least_bytes(parts.what.build(batch), parts.two, parts.devices));
  }
  return most;
}

/// Changes that need less memory than `wanted`, first those that do not change the loss. Each is
/// compiled when its size is requested.
std::vector<training::Alternative> smaller_steps(const resolve::Settings& config,
                                                 const TrainerParts& parts, int64_t wanted,
                                                 const Job& job) {
  std::vector<training::Alternative> out;
  std::string change;
  TrainerParts now = parts;
  now.trainer.program.saved.clear();
  now.trainer.program.dump.clear();
  now.trainer.before_compile = {};
  const auto add = [&](const std::string& key) {
    change += (change.empty() ? "" : " ") + key;
    out.push_back({change, [now, job] { return step_bytes(*compiled(now, job), now.two); },
                   [now] { return least_bytes(now); }});
  };
  if (may_go_to_host(now.two, parts.devices)) {
    now.two->idle_on_host = true;
    add(kIdleOnHost);
  }
  if (parts.what.options.remat.kind != RematPolicy::Kind::FULL) {
    now.what.options.remat = {.kind = RematPolicy::Kind::FULL};
    add("remat_policy=FULL");
  }
  const bool adapts = !parts.what.adapters.empty();
  const bool may_wait =
      has_device_memory(parts.devices) && model_source::runs_blocks_as_loop(config);
  if (may_wait && adapts && parts.what.options.weights_memory == Memory::DEVICE) {
    keep_weights_on_host(now.what);
    add("weights_memory=host");
  }
  if (may_wait && !adapts && parts.what.step.optimizer_memory == Memory::DEVICE) {
    now.what.step.optimizer_memory = Memory::HOST;
    add("optimizer_memory=host");
  }
  add_smaller_batches(config, wanted, now, change, add);
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

/// Changes that make the state on the devices smaller: an expert, weights or moments in host
/// memory, or numbers of 2 bytes.
std::vector<training::Alternative> smaller_states(const resolve::TrainingStep& what, const Two& two,
                                                  const runtime::Devices& devices) {
  std::vector<training::Alternative> out;
  const auto add = [&](const char* change, const resolve::TrainingStep& other, const Two& experts) {
    out.push_back({change, [bytes = held_bytes(other, experts, devices)] { return bytes; }});
  };
  if (may_go_to_host(two, devices)) {
    Two apart = two;
    apart->idle_on_host = true;
    add(kIdleOnHost, what, apart);
  }
  if (has_device_memory(devices) && what.options.scan_layers) {
    resolve::TrainingStep waiting = what;
    if (!what.adapters.empty()) {
      keep_weights_on_host(waiting);
      add("weights_memory=host", waiting, two);
    } else {
      waiting.step.optimizer_memory = Memory::HOST;
      add("optimizer_memory=host", waiting, two);
    }
  }
  resolve::TrainingStep narrow = what;
  narrow.step.state = training::StateDType::WEIGHTS;
  for (nn::ParamSpec& spec : narrow.specs) {
    spec.shape.dtype = DType::BF16;
  }
  add("weights_dtype=bfloat16 train_state_dtype=weights_dtype", narrow, two);
  return out;
}

/// Throws an Error if the offloaded values do not fit into host memory.
void check_host(const training::Trainer& trainer, const Two& two) {
  const runtime::Devices& devices = trainer.devices();
  if (!has_device_memory(devices)) {
    return;
  }
  const int64_t pinned = trainer.offloaded_bytes() * static_cast<int64_t>(devices.count());
  const int64_t idle =
      two ? training::idle_host_bytes(trainer.state_parts(), devices, two->idle_on_host) : 0;
  const int64_t free = runtime::available_memory_bytes();
  check(pinned + idle <= free,
        "[train] {:.1f} GB are to be offloaded to host memory, but only {:.1f} GB are free\n"
        "  set weights_memory, optimizer_memory or idle_expert to `device`, or store weights with "
        "fewer bits (weights_storage)",
        gb(pinned + idle), gb(free));
  // The default limit of pinned memory of XLA's GPU client.
  constexpr const char* kLimit = "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB";
  constexpr int64_t kPinned = int64_t{64} << 30;
  check(devices.client().platform_name() != "cuda" || pinned <= kPinned ||
            std::getenv(kLimit) != nullptr,
        "[train] {:.1f} GB are to be offloaded to host memory, but XLA's client uses at most "
        "{:.1f} GB of it\n"
        "  set the variable {}={:.0f}, its limit in GB",
        gb(pinned), gb(kPinned), kLimit, std::ceil(1.25 * gb(pinned)));
}

/// Bytes that the step moves between a device and host memory; 0 if the plugin does not return the
/// optimized program.
double moved_bytes(const training::Trainer& trainer) {
  try {
    return planning::traffic(pjrt::read_hlo(trainer.program().executable().optimized())).host_bytes;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

void check_step_may_fit(const training::StepGraph& step, const resolve::Settings& config,
                        const TrainerParts& parts, const Job& job) {
  const int64_t wanted = least_bytes(step, parts.two, parts.devices);
  if (wanted > runtime::free_bytes(parts.devices)) {
    training::check_fits("a step with its state (a lower bound)", wanted, parts.devices,
                         smaller_steps(config, parts, wanted, job));
  }
}

void check_step_fits(const training::Trainer& trainer, const resolve::Settings& config,
                     const TrainerParts& parts, const Job& job) {
  const int64_t wanted = step_bytes(trainer, parts.two);
  training::check_fits("a step with its state", wanted, parts.devices,
                       smaller_steps(config, parts, wanted, job));
  check_host(trainer, parts.two);
}

void check_state_fits(const resolve::TrainingStep& what, const Two& two,
                      const runtime::Devices& devices) {
  training::check_fits("the parameters with the optimizer's state", held_bytes(what, two, devices),
                       devices, smaller_states(what, two, devices));
}

std::string offloaded_text(const training::Trainer& trainer) {
  const int64_t waiting = trainer.offloaded_bytes();
  if (waiting == 0) {
    return "";
  }
  const double moved = moved_bytes(trainer);
  return fmt::format("host memory: {:.2f} GB offloaded per device{}", gb(waiting),
                     moved > 0 ? fmt::format(", {:.2f} GB transferred per step", moved / kGb) : "");
}

}  // namespace kinema::plans
