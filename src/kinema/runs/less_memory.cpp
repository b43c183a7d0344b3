#include "kinema/runs/less_memory.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/traffic.h"
#include "kinema/runtime/environment.h"
#include "kinema/training/network_model.h"

namespace kinema::runs {
namespace {

/// As weights_memory=host has it.
void keep_weights_on_host(TrainingStep& what) {
  what.options.weights_memory = Memory::HOST;
  const std::vector<nn::ParamSpec> waiting = what.network->parameters(what.options);
  for (size_t i = 0; i < waiting.size(); ++i) {
    what.specs[i].memory = waiting[i].memory;
  }
}

/// Bytes that the step moves between a device and the host's memory; 0 where the plugin does not
/// show the program.
double moved_bytes(const training::Trainer& trainer) {
  try {
    return planning::traffic(pjrt::read_hlo(trainer.program().executable().optimized())).host_bytes;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

std::unique_ptr<training::Trainer> compiled_trainer(const TrainerParts& parts, const Job& job) {
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

std::vector<training::Alternative> smaller_steps(const config::Config& config,
                                                 const TrainerParts& parts, const Job& job) {
  std::vector<training::Alternative> out;
  std::string change;
  TrainerParts now = parts;
  now.trainer.program.saved.clear();
  now.trainer.program.dump.clear();
  const auto add = [&](const std::string& key) {
    change += (change.empty() ? "" : " ") + key;
    out.push_back({change, [now, job] { return compiled_trainer(now, job)->step_bytes(); }});
  };
  if (parts.what.options.remat.kind != RematPolicy::Kind::FULL) {
    now.what.options.remat = {.kind = RematPolicy::Kind::FULL};
    add("remat_policy=FULL");
  }
  const bool may_wait = runtime::has_own_memory(parts.devices.client()) &&
                        config.model.scan_layers && config.runtime.jit;
  if (may_wait && parts.what.adapter && parts.what.options.weights_memory == Memory::DEVICE) {
    keep_weights_on_host(now.what);
    add("weights_memory=host");
  }
  if (may_wait && !parts.what.adapter && parts.what.step.optimizer_memory == Memory::DEVICE) {
    now.what.step.optimizer_memory = Memory::HOST;
    add("optimizer_memory=host");
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

int64_t held_bytes(const TrainingStep& what, const runtime::Devices& devices) {
  const auto parts =
      training::state_parts(training::state_specs(what.specs, what.step.state),
                            what.step.ema_decay > 0, *training::optimizer_of(what.step));
  const mesh::Placement& place = devices.placement();
  return training::state_bytes(parts, place) -
         (runtime::has_own_memory(devices.client()) ? training::waiting_bytes(parts, place) : 0);
}

std::vector<training::Alternative> smaller_state(const TrainingStep& what,
                                                 const runtime::Devices& devices) {
  std::vector<training::Alternative> out;
  const auto add = [&](const char* change, const TrainingStep& other) {
    out.push_back({change, [bytes = held_bytes(other, devices)] { return bytes; }});
  };
  if (runtime::has_own_memory(devices.client()) && what.options.scan_layers) {
    TrainingStep waiting = what;
    if (what.adapter) {
      keep_weights_on_host(waiting);
      add("weights_memory=host", waiting);
    } else {
      waiting.step.optimizer_memory = Memory::HOST;
      add("optimizer_memory=host", waiting);
    }
  }
  TrainingStep narrow = what;
  narrow.step.state = training::StateDType::WEIGHTS;
  for (nn::ParamSpec& spec : narrow.specs) {
    spec.shape.dtype = DType::BF16;
  }
  add("weights_dtype=bfloat16 train_state_dtype=weights_dtype", narrow);
  return out;
}

void check_waiting(const training::Trainer& trainer) {
  const pjrt::Client& client = trainer.devices().client();
  const auto waiting =
      trainer.waiting_bytes() * static_cast<int64_t>(client.addressable_devices().size());
  const auto gb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  check(waiting <= runtime::available_memory_bytes(),
        "[train] {:.1f} GB are to wait in host memory, but {:.1f} GB are free there\n  "
        "weights_memory=device, optimizer_memory=device or narrower weights (weights_storage) take "
        "less of it",
        gb(waiting), gb(runtime::available_memory_bytes()));
  // What XLA's client for GPUs pins at most, unless it is told otherwise.
  constexpr const char* kLimit = "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB";
  constexpr int64_t kPinned = int64_t{64} << 30;
  check(client.platform_name() != "cuda" || waiting <= kPinned || std::getenv(kLimit) != nullptr,
        "[train] {:.1f} GB are to wait in host memory, of which XLA's client takes {:.1f} at most\n"
        "  set the variable {}={:.0f}, which says how many GB it may take",
        gb(waiting), gb(kPinned), kLimit, std::ceil(1.25 * gb(waiting)));
}

std::string waiting_text(const training::Trainer& trainer) {
  const int64_t waiting = trainer.waiting_bytes();
  if (waiting == 0) {
    return "";
  }
  constexpr double kGb = 1e9;
  const double moved = moved_bytes(trainer);
  return fmt::format("host memory: {:.2f} GB wait there for each device{}",
                     static_cast<double>(waiting) / kGb,
                     moved > 0 ? fmt::format(", {:.2f} GB move in a step", moved / kGb) : "");
}

}  // namespace kinema::runs
