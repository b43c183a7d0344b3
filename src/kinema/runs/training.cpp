#include "kinema/runs/training.h"

#include <fmt/core.h>

#include <optional>

#include "kinema/io/atomic_write.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/runtime/environment.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/training/network_model.h"

namespace kinema::runs {

namespace fs = std::filesystem;

training::LoopOptions Training::loop_options(const config::Config& config) const {
  return {.first_step = first_step,
          .max_steps = config.optimizer.max_train_steps,
          .checkpoint_every = config.run.checkpoint_every,
          .final_checkpoint = config.run.save_final_checkpoint,
          .on_nonfinite = config.optimizer.on_nonfinite == config::OnNonfinite::SKIP
                              ? training::OnNonfinite::SKIP
                              : training::OnNonfinite::STOP,
          .eval_every = config.run.eval_every,
          .check_replicas_every = config.runtime.check_replicas_every,
          .peak_tflops = peak_tflops};
}

int64_t Training::position(int64_t steps) const {
  // Not what was read so far: a step that is to be made again needs its batch again.
  return reuse_batch ? first_position
                     : first_position + (steps - first_step) * batches[0].latents.dims[0];
}

training::Held Training::held() const {
  return {.optimizer = save_optimizer, .frozen = !step.adapter};
}

std::string Training::described(const fs::path& checkpoint) const {
  const std::string parts = checksums ? ": " + training::describe_parts(checkpoint) : "";
  return checkpoint.string() + parts;
}

training::StepRecord Training::measured(training::StepRecord record) const {
  constexpr int64_t kEndless = int64_t{1} << 40;  // samples of data that is made as it is asked for
  if (const int64_t samples = source->size(); samples < kEndless) {
    record.epoch = static_cast<double>(position(record.step + 1)) / static_cast<double>(samples);
  }
  record.rss_bytes = runtime::rss_bytes();
  record.peak_rss_bytes = runtime::peak_rss_bytes();
  if (const auto memory = trainer->devices()[0].memory()) {
    record.device_bytes = memory->bytes_in_use;
    record.peak_device_bytes = memory->peak_bytes_in_use;
  }
  return record;
}

training::Evaluation Training::evaluate() const {
  return evaluator->run(trainer->state().params(), *eval_source);
}

training::LoopParts Training::parts() {
  training::LoopParts parts;
  parts.next_batch = [this, kept = std::optional<data::Batch>()]() mutable {
    if (!reuse_batch) {
      return prefetcher->next();
    }
    if (!kept) {
      kept = prefetcher->next();
    }
    return kept;
  };
  parts.learning_rate = [this](int64_t i) { return schedule(i); };
  parts.run_step = [this](int64_t i, double rate, const data::Batch& batch_now) {
    return trainer->run(i, rate, batch_now);
  };
  parts.find_nonfinite = [this](int64_t i, const data::Batch& batch_now) {
    const std::string found =
        debug_nans ? trainer->find_operation(i, schedule(i), batch_now,
                                             training::network_model(step.network, step.options))
                   : "";
    if (!found.empty()) {
      return found;
    }
    return trainer->find_nonfinite(i, batch_now,
                                   training::tapped_network_model(step.network, step.options));
  };
  parts.tflops = [this](const data::Batch& batch_now) {
    return tflops.at(trainer->shape_of(batch_now));
  };
  parts.check_replicas = [this] { trainer->check_replicas(); };
  parts.save = [this](int64_t steps, bool go_on) { save(steps, go_on); };
  parts.saved = [this](bool wait) { report_saved(wait); };
  return parts;
}

void Training::report_saved(bool wait) {
  const std::optional<std::string> line = wait ? writer->finish() : writer->poll();
  if (line && log) {
    log(*line);
  }
}

void Training::save(int64_t steps, bool go_on) {
  const pjrt::AllowTransfers all;
  report_saved(true);  // one copy of the state at a time
  const training::TrainState reached{
      .step = steps,
      .data_position = position(steps),
      .seed = seed,
      .settings = settings,
      .weights = step.adapter ? training::kAdapter : step.expert.part(),
      .adapter = step.adapter ? std::optional(step.adapter->config) : std::nullopt,
      .gain = gain};
  const auto write = [this, reached](const training::StateSource& state) {
    if (stored != nullptr) {
      stored->begin(reached.step);
    }
    checkpoints->write(reached.step, [&](const fs::path& folder) {
      training::save_state(folder, step.network, state, reached, held());
      if (!scheduler_config.empty()) {
        const fs::path kept = folder / sample::kSchedulerConfig;
        fs::create_directories(kept.parent_path());
        io::write_file(kept, scheduler_config);
      }
    });
    std::string line = fmt::format("checkpoint of step {} saved: {}", reached.step,
                                   described(checkpoints->path(reached.step)));
    if (stored != nullptr) {
      stored->push();
    }
    return line;
  };
  const training::StateView state = trainer->state();
  // Room for the copy, and as much again for what the steps and the files take.
  const int64_t wanted = 2 * training::host_bytes(state, held());
  if (go_on && in_background && wanted <= runtime::available_memory_bytes()) {
    writer->start([write, copy = training::host_copy(state, held())] { return write(copy); });
  } else {
    const std::string line = write(training::source_of(state));
    if (log) {
      log(line);
    }
  }
}

}  // namespace kinema::runs
