#include "kinema/training/loop.h"

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/core/trace.h"
#include "kinema/training/flops.h"

namespace kinema::training {

namespace {

std::string joined(const std::vector<std::string>& ids) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < ids.size() && i < kShown; ++i) {
    text += (i > 0 ? ", " : "") + ids[i];
  }
  return ids.size() > kShown ? fmt::format("{} and {} more", text, ids.size() - kShown) : text;
}

}  // namespace

std::string console_line(const StepRecord& record) {
  const double used = model_flops_utilization(record);
  const FlopRate rate = flop_rate(record.seconds > 0 ? record.tflops / record.seconds : 0.0);
  return fmt::format("completed step: {}, seconds: {:.3f}, {}/device: {:.3f}, loss: {:.3f}{}{}",
                     record.step + 1, record.seconds, rate.unit, rate.value, record.loss,
                     used > 0 ? fmt::format(", MFU: {:.1f} %", 100 * used) : "",
                     record.expert.empty() ? "" : ", expert: " + record.expert);
}

std::vector<std::pair<std::string, int64_t>> memory_figures(const StepRecord& record) {
  std::vector<std::pair<std::string, int64_t>> out;
  const auto add = [&](const char* name, std::optional<int64_t> bytes) {
    if (bytes && *bytes > 0) {
      out.emplace_back(name, *bytes);
    }
  };
  add("perf/rss_bytes", record.rss_bytes);
  add("perf/peak_rss_bytes", record.peak_rss_bytes);
  add("perf/device_bytes_in_use", record.device_bytes);
  add("perf/device_peak_bytes_in_use", record.peak_device_bytes);
  return out;
}

double model_flops_utilization(const StepRecord& record) {
  return record.seconds > 0 && record.peak_tflops > 0
             ? record.tflops / record.seconds / record.peak_tflops
             : 0;
}

LoopEnd train_loop(const LoopOptions& options, const LoopParts& parts) {
  LoopEnd end{.steps = options.first_step};
  int64_t saved = options.first_step;
  const int64_t every = options.check_replicas_every;
  const auto save = [&](bool go_on) {
    if (every > 0) {
      parts.check_replicas();  // before anything of a bad state is published
    }
    const trace::Scope span("checkpoint");
    parts.save(end.steps, go_on);
    saved = end.steps;
  };
  constexpr bool kWait = true;
  // What was trained is worth more than what went wrong beside it.
  const auto saved_if_it_fails = [&](const auto& work) {
    try {
      return work();
    } catch (...) {
      if (parts.save && saved != end.steps) {
        save(false);
      }
      if (parts.saved) {
        parts.saved(kWait);
      }
      throw;
    }
  };

  Stopwatch since_last;
  while (end.steps < options.max_steps && !end.stopped) {
    if (parts.begin_step) {
      parts.begin_step(end.steps);
    }
    const trace::Scope whole("train", end.steps);
    std::optional<data::Batch> batch;
    {
      const trace::Scope span("wait for data");
      batch = saved_if_it_fails([&] {
        std::optional<data::Batch> next = parts.next_batch();
        check(next.has_value(), "[train] the data ended after {} of {} steps", end.steps,
              options.max_steps);
        return next;
      });
    }
    StepRecord record{.step = end.steps, .learning_rate = parts.learning_rate(end.steps)};
    {
      const trace::Scope span("step");
      const StepResult result = parts.run_step(record.step, record.learning_rate, *batch);
      record.loss = result.loss;
      record.gradient_norm = result.gradient_norm;
      record.max_abs_gradient = result.max_abs_gradient;
      record.finite = result.finite;
    }
    record.seconds = since_last.seconds();
    since_last.restart();
    record.tflops = parts.tflops ? parts.tflops(*batch) : 0.0;
    record.peak_tflops = options.peak_tflops;
    if (!record.finite) {
      record.nonfinite = parts.find_nonfinite(record.step, *batch);
    }
    {
      const trace::Scope span("report");
      try {
        parts.report(record);
      } catch (...) {  // of who looks on: the step has been made
        end.steps += record.finite ? 1 : 0;
        saved_if_it_fails([] { throw; });
      }
    }
    if (!record.finite) {
      const std::string what =
          fmt::format("step {} is not finite, first in {}; batch: {}; the step changed nothing",
                      record.step + 1, record.nonfinite, joined(batch->ids));
      if (options.on_nonfinite == OnNonfinite::STOP) {
        if (options.final_checkpoint && saved != end.steps) {
          save(false);  // the state is that of the last good step
        }
        parts.saved(kWait);
        fail("[train] {}\n  on_nonfinite=skip goes on past such steps", what);
      }
      parts.say(what + "; skipped");
      ++end.skipped;
      since_last.restart();  // looking for the cause is no part of the next step
    }
    ++end.steps;
    if (every > 0 && end.steps % every == 0) {
      parts.check_replicas();
    }
    // First, so that a checkpoint knows what the evaluation of its step came to.
    if (options.eval_every > 0 && end.steps % options.eval_every == 0 && !parts.stop_requested()) {
      const trace::Scope span("evaluation");
      saved_if_it_fails([&] { parts.evaluate(record.step); });
      since_last.restart();
    }
    if (options.checkpoint_every > 0 && end.steps % options.checkpoint_every == 0) {
      save(end.steps < options.max_steps && !parts.stop_requested());
      since_last.restart();
    }
    parts.saved(!kWait);
    end.stopped = parts.stop_requested() && end.steps < options.max_steps;
  }

  if (saved != end.steps && (options.final_checkpoint || end.stopped)) {
    save(false);
  }
  parts.saved(kWait);
  return end;
}

}  // namespace kinema::training
