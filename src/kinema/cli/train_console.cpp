#include "kinema/cli/train_console.h"

#include <fmt/format.h>

#include <filesystem>

#include "kinema/cli/console.h"
#include "kinema/cli/observing.h"
#include "kinema/core/quantities.h"

namespace kinema::cli {
namespace {

double gb(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

/// `, NAME SHAPE` for an optional part of the batch.
std::string also(const char* name, const std::optional<Shape>& shape) {
  return shape ? fmt::format(", {} {}", name, to_string(*shape)) : "";
}

/// Prints the lines before the first step.
void announce(const jobs::TrainStart& start) {
  fmt::print("run folder: {}\n", start.run_folder);
  fmt::print("model: {} parameters, {}\n", count_text(start.parameters),
             start.first_step > 0       ? fmt::format("resumed after step {}", start.first_step)
             : start.pretrained.empty() ? "from scratch"
                                        : "from " + start.pretrained.string());
  if (!start.adapter.empty()) {
    fmt::print("trained: {}, {} parameters\n", start.adapter, count_text(start.trained_parameters));
  }
  if (!start.mesh.empty()) {
    fmt::print("devices: {}, {}\n", start.devices, start.mesh);
  }
  if (!start.resumed.empty()) {
    fmt::print("checkpoint read: {}; next sample {}\n", start.resumed, start.first_position);
  }
  for (const std::string& line : start.notes) {
    fmt::print("{}\n", line);
  }
  fmt::print(
      "global batch: {}{}\n", start.batch,
      start.accumulation == 1
          ? ""
          : fmt::format("; a step averages the gradients of {} such batches", start.accumulation));
  for (const auto& [batch, report] : start.steps) {
    fmt::print("samples of a step: {} of {} with text {}{}{}\n", batch.latents.dims[0],
               to_string(batch.latents), to_string(batch.text),
               also("image condition", batch.condition), also("image states", batch.image_states));
    fmt::print("step compiled in {:.2f} s{}, {:.1f} MB of temporaries\n", report.compile_seconds,
               report.from_cache ? " (from the cache)" : "",
               static_cast<double>(report.memory.temporary) / 1e6);
  }
  if (start.expert.boundary_ratio) {
    fmt::print("expert: {}, {}\n", start.expert.name(), start.expert.timesteps());
  }
  fmt::print("estimated peak memory: {:.2f} GB (state {:.2f}, step {:.2f}, runtime {:.2f})\n",
             gb(start.memory.predicted()), gb(start.memory.state), gb(start.memory.step),
             gb(start.memory.held));
  fmt::print("steps: {} to {}, {}\n", start.first_step + 1, start.max_steps, start.schedule);
  if (!start.checkpoints.empty()) {
    fmt::print("{}\n", start.checkpoints);
  }
  for (const std::string& line : start.sharding) {
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

}  // namespace

jobs::TrainObserver TrainConsole::observer() {
  jobs::TrainObserver out;
  show_on_console(out, !quiet_);
  out.on_start = [this](const jobs::TrainStart& begun) { start(begun); };
  out.on_step = [this](const jobs::StepRecord& record) { step(record); };
  out.on_evaluation = [this](int64_t step, const jobs::Evaluation& evaluation, double seconds) {
    for (const std::string& text : training::evaluation_lines(step, evaluation, seconds)) {
      line(text);
    }
  };
  out.on_videos = [this](const jobs::VideosWritten& made) {
    line(fmt::format(
        "{} {}: {}, {:.1f} s", counted(static_cast<int64_t>(made.files.size()), made.noun),
        made.step < 0 ? "before training" : fmt::format("after step {}", made.step + 1),
        made.files.front().parent_path().string(), made.seconds));
  };
  out.on_comparison = [this](const jobs::VideosCompared& made) {
    line(fmt::format("first {} after step {} against before training: SSIM {:.4f}, PSNR {:.2f} dB",
                     made.noun, made.step + 1, made.ssim, made.psnr));
  };
  return out;
}

void TrainConsole::start(const jobs::TrainStart& start) {
  if (!quiet_) {
    announce(start);
  }
  first_step_ = start.first_step;
  allowed_flags_ = start.allowed_flags;
  since_start_.restart();
  pace_.emplace(0, start.first_step, start.max_steps);
  progress_.emplace("training", start.max_steps, Progress::WithoutTerminal::NOTHING);
}

void TrainConsole::step(const jobs::StepRecord& record) {
  progress_->update(record.step + 1, fmt::format("loss {:.3f}", record.loss));
  if (!pace_->is_due(record.step, since_start_.seconds()) && record.finite) {
    return;
  }
  std::string text = training::console_line(record);
  if (const std::optional<double> left = progress_->seconds_left(); left && !has_terminal()) {
    text += fmt::format(", {} left", clock_text(*left));
  }
  // Allowed errors are shown next to the first numbers.
  line(text + (record.step == first_step_ ? allowed_flags_ : ""));
}

void TrainConsole::line(const std::string& text) const {
  if (!quiet_) {
    print_line(text);
  }
}

}  // namespace kinema::cli
