#include "kinema/jobs/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "kinema/io/atomic_write.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/resolve/two_experts.h"
#include "kinema/runtime/environment.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/training/network_model.h"

namespace kinema::jobs {

namespace fs = std::filesystem;

int64_t Training::position(int64_t steps) const {
  // Not the prefetcher's position: a step that is run again needs its batch again.
  return settings.reuse_batch ? first_position
                              : first_position + (steps - first_step) * batches[0].latents.dims[0];
}

training::Held Training::held() const {
  return {.optimizer = settings.save_optimizer,
          .frozen = step.adapters.empty() && base.words.empty() && !base.control};
}

std::string Training::described(const fs::path& checkpoint) const {
  const std::string parts = checksums ? ": " + checkpoints::describe_parts(checkpoint) : "";
  return checkpoint.string() + parts;
}

training::StepRecord Training::measured(training::StepRecord record) const {
  constexpr int64_t kEndless = int64_t{1} << 40;  // more samples: generated on demand, without end
  if (const int64_t samples = source->size(); samples < kEndless) {
    record.epoch = static_cast<double>(position(record.step + 1)) / static_cast<double>(samples);
  }
  if (two) {
    record.expert = step.expert.each().at(experts->expert_of(record.step)).name();
  }
  record.rss_bytes = runtime::rss_bytes();
  record.peak_rss_bytes = runtime::peak_rss_bytes();
  if (const auto memory = experts->trainer().devices()[0].memory()) {
    record.device_bytes = memory->bytes_in_use;
    record.peak_device_bytes = memory->peak_bytes_in_use;
  }
  return record;
}

double Training::rate(int64_t i) const {
  return schedules.at(experts->expert_of(i))(experts->steps_before(i));
}

training::Evaluation Training::evaluate() const {
  std::vector<training::EvaluatedPart> parts = resolve::evaluated_parts(
      step.expert, [this](int64_t place) { return experts->state(place).params(); });
  if (experts->active() == 1) {  // the active expert first
    std::ranges::reverse(parts);
  }
  return evaluator->run(parts, *eval_source);
}

training::LoopParts Training::parts() {
  training::LoopParts parts;
  parts.next_batch = [this, kept = std::optional<data::Batch>()]() mutable {
    if (!settings.reuse_batch) {
      return prefetcher->next();
    }
    if (!kept) {
      kept = prefetcher->next();
    }
    return kept;
  };
  parts.learning_rate = [this](int64_t i) { return rate(i); };
  parts.run_step = [this](int64_t i, double rate, const data::Batch& batch_now) {
    return experts->run(i, rate, batch_now);
  };
  parts.find_nonfinite = [this](int64_t i, const data::Batch& batch_now) {
    const training::Trainer& trainer = experts->trainer();  // the step's expert is still active
    std::string found =
        settings.debug_nans
            ? trainer.find_operation(i, rate(i), batch_now,
                                     training::network_model(step.network, step.options))
            : "";
    if (found.empty()) {
      found = trainer.find_nonfinite(i, batch_now,
                                     training::tapped_network_model(step.network, step.options));
    }
    if (two) {
      found +=
          fmt::format(", of the {} expert", step.expert.each().at(experts->expert_of(i)).name());
    }
    return found;
  };
  parts.tflops = [this](const data::Batch& batch_now) {
    return tflops.at(experts->trainer().shape_of(batch_now));
  };
  parts.expected_seconds = [this](const data::Batch& batch_now) {
    return expected_seconds.at(experts->trainer().shape_of(batch_now));
  };
  parts.check_replicas = [this] { experts->check_replicas(); };
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
  report_saved(true);  // only one copy of the state at a time
  const training::TrainState reached{
      .step = steps,
      .data_position = position(steps),
      .seed = settings.seed,
      .settings = record,
      .weights = base.control            ? training::kControl
                 : !base.words.empty()   ? training::kWords
                 : step.adapters.empty() ? model_source::trained_part(step.network, step.expert)
                                         : training::kAdapter,
      .adapter = step.adapters.empty() ? std::nullopt : std::optional(step.adapters.front().config),
      .words = base.words,
      .early_stopping = early_stopping};
  const auto write = [this, reached](std::span<const training::StateSource> states) {
    const auto fill = [&](const fs::path& folder) {
      training::save_states(folder, step.network, states, reached, held());
      if (!scheduler_config.empty() && states.front().process == 0) {
        const fs::path kept = folder / sample::kSchedulerConfig;
        fs::create_directories(kept.parent_path());
        io::write_file(kept, scheduler_config);
      }
    };
    if (stored != nullptr && writers) {
      stored->write_together(reached.step, fill, *writers);
      return fmt::format("checkpoint of step {} saved: {}", reached.step,
                         stored->store().path().below(std::to_string(reached.step)).text());
    }
    if (stored != nullptr) {
      stored->begin(reached.step);
    }
    if (writers) {
      checkpoints->write_together(reached.step, fill, *writers);
    } else {
      checkpoints->write(reached.step, fill);
    }
    std::string line = fmt::format("checkpoint of step {} saved: {}", reached.step,
                                   described(checkpoints->path(reached.step)));
    if (stored != nullptr) {
      stored->push();
    }
    return line;
  };
  std::vector<training::StateSource> states;
  for (int64_t expert = 0; expert < experts->size(); ++expert) {
    states.push_back(shared ? shared->copy(experts->state(expert), held())
                            : experts->source(expert));
  }
  if (shared) {  // each process has its copy, and all make the same choice
    const auto copied = [write, copies = std::move(states)] { return write(copies); };
    writer->start(copied);
    if (!go_on || !settings.background_checkpoints) {
      report_saved(true);
    }
    return;
  }
  // Memory for the copies, and as much again for steps and files.
  const int64_t wanted =
      2 * experts->size() * training::host_bytes(std::as_const(*experts).trainer().state(), held());
  if (go_on && settings.background_checkpoints && wanted <= runtime::available_memory_bytes()) {
    for (training::StateSource& state : states) {
      state = training::host_copy(state, held());
    }
    writer->start([write, copies = std::move(states)] { return write(copies); });
  } else {
    const std::string line = write(states);
    if (log) {
      log(line);
    }
  }
}

}  // namespace kinema::jobs
