// What comes of a job: outputs, measurements, or an engine that ended.
#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/http/gate.h"
#include "kinema/serve/engine_process.h"
#include "kinema/serve/maker.h"
#include "kinema/serve/paths.h"
#include "kinema/serve/queue.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// An engine's word is not believed either.
bool is_file_in(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  return lies_in(file, folder) && fs::is_regular_file(file, error);
}

}  // namespace

void Queue::finish(const JobRecord& job, const io::Json& made) {
  std::vector<OutputRecord> outputs;
  const fs::path folder = store_.folder() / "outputs" / job.id;
  const Made read = read_made(made);
  measure(job, read);
  for (const MadeFile& file : read.files) {
    check(is_file_in(file.path, folder), "[serve] the engine made {}, which is no file in {}",
          file.path.string(), folder.string());
    outputs.push_back({.id = "o_" + http::random_id(),
                       .job = job.id,
                       .path = fs::canonical(file.path),
                       .thumb = is_file_in(file.thumb, folder) ? fs::canonical(file.thumb) : "",
                       .is_video = file.is_video,
                       .width = file.width,
                       .height = file.height,
                       .frames = file.frames,
                       .seconds = file.fps > 0 ? static_cast<double>(file.frames) / file.fps : 0,
                       .bytes = static_cast<int64_t>(fs::file_size(file.path)),
                       .model = job.request.model,
                       .prompt = job.request.prompt(),
                       .seed = job.request.seed(),
                       .index = file.index,
                       .made = now(),
                       .request = job.request});
  }
  std::vector<std::string> notices;
  if (const auto state = live()) {
    notices = state->notices;
  }
  store_.finish(job.id, outputs, notices);
  for (const OutputRecord& output : outputs) {
    events_.publish("output", to_json(output).dump(-1));
  }
}

/// Keeps what the request took, for estimates.
void Queue::measure(const JobRecord& job, const Made& made) {
  const int64_t count = std::max<int64_t>(1, job.request.count);
  int64_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    bytes = engine_state_.bytes;  // what the request was said to need
    engine_state_.device = made.device.name;
    engine_state_.platform = made.device.platform;
    engine_state_.devices = made.device.count;
    engine_state_.bytes = made.device.bytes;
    engine_state_.bytes_limit = made.device.limit;
    times_.setup += made.times.setup;
    times_.steps += made.times.steps;
    times_.others += made.times.others;
    times_.count += made.times.count;
  }
  const Model model = catalogue_.model(job.request.model);
  const std::string shape = shape_of(model, job.request);
  if (made.times.count <= 0 || made.times.steps <= 0) {
    return;
  }
  double setup = made.times.setup;
  for (const Measurement& known : store_.measurements(model.name)) {
    if (known.shape == shape) {  // compiled and loaded already: the first time says what that takes
      setup = std::max(setup, known.setup_seconds);
    }
  }
  store_.measured(model.name,
                  {.shape = shape,
                   .cells = cells_of(model, job.request),
                   .step_seconds = made.times.steps / static_cast<double>(made.times.count),
                   .other_seconds = made.times.others / static_cast<double>(count),
                   .setup_seconds = setup,
                   .bytes = bytes});
}

/// The engine has ended while it made the job, which waits again until it has been tried too often.
void Queue::on_death(const JobRecord& job) {
  std::string how = "it closed its connection";
  for (int i = 0; i < 50; ++i) {  // the end of the connection may come before that of the process
    if (const auto ended = engine_->child().ended()) {
      how = *ended;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const bool was_cancelled = is_cancelled(job.id);
  {
    const std::lock_guard lock(mutex_);
    live_.reset();
    ++deaths_;
    const int64_t doublings = std::min<int64_t>(deaths_in_a_row_++, 6);
    not_before_ =
        Clock::now() + std::min<Clock::duration>(std::chrono::minutes(1),
                                                 options_.restart_time * (1 << doublings));
  }
  stop_engine("ended", fmt::format("the engine ended ({}); see engine.log", how));
  if (was_cancelled) {
    end_job(job.id, JobState::CANCELLED);
  } else if (job.attempts >= options_.attempts) {
    end_job(job.id, JobState::FAILED,
            fmt::format("the engine ended {} times while it made this ({})", job.attempts, how));
  } else {
    store_.put_back(job.id, /*counts=*/true);
    publish(find(job.id));
  }
}

}  // namespace kinema::serve
