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
  return fmt::format(
      "completed step: {}, seconds: {:.3f}{}, {}/device: {:.3f}, loss: {:.3f}{}{}", record.step + 1,
      record.seconds,
      record.expected_seconds > 0 ? fmt::format(" (plan: {:.3f})", record.expected_seconds) : "",
      rate.unit, rate.value, record.loss,
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

namespace {

constexpr bool kWait = true;

/// The state of a loop between its steps.
class Loop {
 public:
  Loop(const LoopOptions& options, const LoopParts& parts)
      : options_(options), parts_(parts), saved_(options.first_step) {
    end_.steps = options.first_step;
  }

  LoopEnd run() {
    while (end_.steps < options_.max_steps && !end_.stopped) {
      step();
    }
    if (saved_ != end_.steps && (options_.final_checkpoint || end_.stopped)) {
      save(false);
    }
    parts_.saved(kWait);
    return end_;
  }

 private:
  void save(bool go_on) {
    if (options_.check_replicas_every > 0) {
      parts_.check_replicas();  // before a bad state is written
    }
    const trace::Scope span("checkpoint");
    parts_.save(end_.steps, go_on);
    saved_ = end_.steps;
  }

  /// Saves the trained state if `work` throws.
  template <typename Work>
  auto saved_if_it_fails(const Work& work) {
    try {
      return work();
    } catch (...) {
      if (parts_.save && saved_ != end_.steps) {
        save(false);
      }
      if (parts_.saved) {
        parts_.saved(kWait);
      }
      throw;
    }
  }

  data::Batch next_batch() {
    const trace::Scope span("wait for data");
    return saved_if_it_fails([&] {
      std::optional<data::Batch> next = parts_.next_batch();
      check(next.has_value(), "[train] the data ended after {} of {} steps", end_.steps,
            options_.max_steps);
      return *std::move(next);
    });
  }

  StepRecord run_step(const data::Batch& batch) {
    StepRecord record{.step = end_.steps, .learning_rate = parts_.learning_rate(end_.steps)};
    {
      const trace::Scope span("step");
      const StepResult result = parts_.run_step(record.step, record.learning_rate, batch);
      record.loss = result.loss;
      record.gradient_norm = result.gradient_norm;
      record.max_abs_gradient = result.max_abs_gradient;
      record.finite = result.finite;
      record.estimate = result.estimate;
    }
    record.seconds = since_last_.seconds();
    since_last_.restart();
    record.tflops = parts_.tflops ? parts_.tflops(batch) : 0.0;
    record.expected_seconds = parts_.expected_seconds ? parts_.expected_seconds(batch) : 0.0;
    record.peak_tflops = options_.peak_tflops;
    if (!record.finite) {
      record.nonfinite = parts_.find_nonfinite(record.step, batch);
    }
    return record;
  }

  void report(const StepRecord& record) {
    const trace::Scope span("report");
    try {
      parts_.report(record);
    } catch (...) {  // an observer's error: the step itself succeeded
      end_.steps += record.finite ? 1 : 0;
      saved_if_it_fails([] { throw; });
    }
  }

  /// Skips the step or throws an Error, according to the options.
  void handle_nonfinite(const StepRecord& record, const data::Batch& batch) {
    const std::string what =
        fmt::format("step {} is not finite, first in {}; batch: {}; the step changed nothing",
                    record.step + 1, record.nonfinite, joined(batch.ids));
    if (options_.on_nonfinite == OnNonfinite::STOP) {
      if (options_.final_checkpoint && saved_ != end_.steps) {
        save(false);  // the state after the last finite step
      }
      parts_.saved(kWait);
      fail("[train] {}\n  on_nonfinite=skip skips such steps", what);
    }
    parts_.say(what + "; skipped");
    ++end_.skipped;
    since_last_.restart();  // the search for the cause is not a part of the next step's time
  }

  void step() {
    if (parts_.begin_step) {
      parts_.begin_step(end_.steps);
    }
    const trace::Scope whole("train", end_.steps);
    const data::Batch batch = next_batch();
    const StepRecord record = run_step(batch);
    report(record);
    if (!record.finite) {
      handle_nonfinite(record, batch);
    }
    ++end_.steps;
    after_step(record.step);
  }

  void after_step(int64_t step) {
    const int64_t every = options_.check_replicas_every;
    if (every > 0 && end_.steps % every == 0) {
      parts_.check_replicas();
    }
    // First, so that a checkpoint contains the evaluation of its step.
    if (options_.eval_every > 0 && end_.steps % options_.eval_every == 0 &&
        !parts_.stop_requested()) {
      const trace::Scope span("evaluation");
      saved_if_it_fails([&] { parts_.evaluate(step); });
      since_last_.restart();
    }
    const Asked asked = parts_.asked ? parts_.asked() : Asked{};
    if (asked.sample) {
      const trace::Scope span("samples");
      saved_if_it_fails([&] { parts_.sample(step); });
      since_last_.restart();
    }
    if (asked.save ||
        (options_.checkpoint_every > 0 && end_.steps % options_.checkpoint_every == 0)) {
      save(end_.steps < options_.max_steps && !parts_.stop_requested());
      since_last_.restart();
    }
    parts_.saved(!kWait);
    end_.stopped = parts_.stop_requested() && end_.steps < options_.max_steps;
  }

  const LoopOptions& options_;
  const LoopParts& parts_;
  LoopEnd end_;
  int64_t saved_;  // steps of the newest checkpoint
  Stopwatch since_last_;
};

}  // namespace

LoopEnd train_loop(const LoopOptions& options, const LoopParts& parts) {
  return Loop(options, parts).run();
}

}  // namespace kinema::training
