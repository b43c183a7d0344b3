#include "kinema/jobs/run_records.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

/// Writes the run's settings to TensorBoard's text page.
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

RunRecords::RunRecords(const Training& training, resolve::RecordSettings settings, bool writes,
                       std::function<void()> on_log)
    : run_(training.run),
      settings_(std::move(settings)),
      writes_(settings_.writes && writes),
      on_log_(std::move(on_log)) {
  if (!writes_) {
    return;
  }
  metrics_.emplace(settings_.metrics, settings_.run_name, training.first_step);
  events_.emplace(settings_.tensorboard, training.first_step);
  write_texts(*events_, training);
  if (!settings_.metrics_chunks.empty()) {
    chunks_.emplace(settings_.metrics_chunks, settings_.log_period);
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
  if ((record.step + 1) % settings_.log_period == 0) {
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
    // TensorBoard has no step before the first one.
    for (const metrics::EventImage& picture : pictures(made, settings_.fps)) {
      events_->write_image(std::max<int64_t>(step, 0), picture);
    }
  }
}

void RunRecords::similarity(int64_t step, const BeforeTraining::Similarity& similarity) {
  std::vector<metrics::Scalar> scalars{{"eval/ssim", similarity.ssim}};
  if (std::isfinite(similarity.psnr)) {
    scalars.push_back({"eval/psnr", similarity.psnr});
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
    metrics::write_curve(run_ / "loss.svg",
                         metrics::read_losses(settings_.metrics, settings_.run_name), "loss");
  }
}

}  // namespace kinema::jobs
