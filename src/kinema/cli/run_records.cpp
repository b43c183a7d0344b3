#include "kinema/cli/run_records.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "kinema/cli/console.h"
#include "kinema/cli/quantities.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// What a run was begun with, on TensorBoard's page of texts.
void write_texts(training::EventFile& events, const Training& training) {
  for (const char* name : {"config.yml", "flags.json"}) {
    std::ifstream in(training.run / name);
    std::stringstream text;
    text << in.rdbuf();
    events.write_text(name, text.str());
  }
  events.write_text("number_model_parameters", std::to_string(training.parameters));
  events.flush();
}

}  // namespace

RunRecords::RunRecords(const Training& training, const config::Config& config, bool quiet,
                       std::string first_words, std::function<void()> on_log)
    : run_(training.run),
      metrics_path_(config.run.metrics_file.empty() ? training.run / "metrics.jsonl"
                                                    : fs::path(config.run.metrics_file)),
      fps_(static_cast<double>(config.generate.fps)),
      log_period_(config.run.log_period),
      first_step_(training.first_step),
      quiet_(quiet),
      first_words_(std::move(first_words)),
      on_log_(std::move(on_log)),
      pace_(0, training.first_step, config.optimizer.max_train_steps),
      progress_(std::in_place, "training", config.optimizer.max_train_steps,
                Progress::Elsewhere::NOTHING) {
  if (config.run.write_metrics) {
    metrics_.emplace(metrics_path_, config.run.run_name, training.first_step);
    events_.emplace(config.run.tensorboard_dir.empty() ? training.run / "tensorboard"
                                                       : fs::path(config.run.tensorboard_dir),
                    training.first_step);
    write_texts(*events_, training);
  }
  if (metrics_ && config.run.gcs_metrics) {
    chunks_.emplace(
        config.run.metrics_dir.empty() ? run_ / "metrics" : fs::path(config.run.metrics_dir),
        log_period_);
  }
}

void RunRecords::step(const training::StepRecord& record) {
  if (metrics_) {
    const std::string row = metrics_->write(record);
    events_->write(record);
    if (chunks_) {
      chunks_->add(record.step, row);
    }
    if ((record.step + 1) % log_period_ == 0) {
      events_->flush();
      on_log_();
    }
  }
  progress_->update(record.step + 1, fmt::format("loss {:.3f}", record.result.loss));
  if (!pace_.is_due(record.step, since_start_.seconds()) && record.result.finite) {
    return;
  }
  std::string text = training::console_line(record);
  if (const std::optional<double> left = progress_->seconds_left(); left && !has_terminal()) {
    text += fmt::format(", {} left", clock_text(*left));
  }
  // Who runs against advice shall see it beside the first numbers.
  line(text + (record.step == first_step_ ? first_words_ : ""));
}

void RunRecords::evaluation(int64_t step, const training::Evaluation& evaluation, double seconds) {
  if (metrics_) {
    metrics_->write(step, evaluation);
    events_->write(step, evaluation);
  }
  for (const std::string& text : training::evaluation_lines(step, evaluation, seconds)) {
    line(text);
  }
}

void RunRecords::videos(int64_t step, const RunVideos::Made& made) {
  if (events_) {
    // TensorBoard has no step before the first.
    for (const training::EventImage& picture : pictures(made, fps_)) {
      events_->write_image(std::max<int64_t>(step, 0), picture);
    }
  }
  const fs::path folder = made.files.videos.front().parent_path();
  line(fmt::format("{} {}: {}, {:.1f} s",
                   counted(static_cast<int64_t>(made.files.videos.size()), "video"),
                   step < 0 ? "before training" : fmt::format("after step {}", step + 1),
                   folder.string(), made.seconds));
}

void RunRecords::likeness(int64_t step, const BeforeTraining::Likeness& likeness) {
  std::vector<training::Scalar> scalars{{"eval/ssim", likeness.ssim}};
  if (std::isfinite(likeness.psnr)) {
    scalars.push_back({"eval/psnr", likeness.psnr});
  }
  if (metrics_) {
    metrics_->write(step, scalars);
    events_->write(step, scalars);
  }
  line(fmt::format("first video after step {} against before training: SSIM {:.4f}, PSNR {:.2f} dB",
                   step + 1, likeness.ssim, likeness.psnr));
}

void RunRecords::line(const std::string& text) {
  if (!quiet_) {
    print_line(text);
  }
}

void RunRecords::finish() {
  progress_.reset();
  if (metrics_) {
    metrics_.reset();
    events_->flush();
    if (chunks_) {
      chunks_->finish();
    }
    training::write_curve(run_ / "loss.svg", training::read_losses(metrics_path_), "loss");
  }
}

}  // namespace kinema::cli
