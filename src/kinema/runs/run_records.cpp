#include "kinema/runs/run_records.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// What a run was begun with, on TensorBoard's page of texts.
void write_texts(metrics::EventFile& events, const Training& training) {
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

RunRecords::RunRecords(const Training& training, const config::Config& config, bool writes,
                       std::function<void()> on_log)
    : run_(training.run),
      metrics_path_(config.run.metrics_file.empty() ? training.run / "metrics.jsonl"
                                                    : fs::path(config.run.metrics_file)),
      run_name_(config.run.run_name),
      fps_(static_cast<double>(config.generate.fps)),
      log_period_(config.run.log_period),
      writes_(config.run.write_metrics && writes),
      on_log_(std::move(on_log)) {
  if (writes_) {
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
  if (!metrics_) {
    return;
  }
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

void RunRecords::evaluation(int64_t step, const training::Evaluation& evaluation) {
  if (metrics_) {
    metrics_->write(step, evaluation);
    events_->write(step, evaluation);
  }
}

void RunRecords::videos(int64_t step, const RunVideos::Made& made) {
  if (events_) {
    // TensorBoard has no step before the first.
    for (const metrics::EventImage& picture : pictures(made, fps_)) {
      events_->write_image(std::max<int64_t>(step, 0), picture);
    }
  }
}

void RunRecords::likeness(int64_t step, const BeforeTraining::Likeness& likeness) {
  std::vector<metrics::Scalar> scalars{{"eval/ssim", likeness.ssim}};
  if (std::isfinite(likeness.psnr)) {
    scalars.push_back({"eval/psnr", likeness.psnr});
  }
  if (metrics_) {
    metrics_->write(step, scalars);
    events_->write(step, scalars);
  }
}

void RunRecords::finish() {
  if (metrics_) {
    metrics_.reset();
    events_->flush();
    if (chunks_) {
      chunks_->finish();
    }
  }
}

void RunRecords::draw() const {
  if (writes_) {
    metrics::write_curve(run_ / "loss.svg", metrics::read_losses(metrics_path_, run_name_), "loss");
  }
}

}  // namespace kinema::runs
