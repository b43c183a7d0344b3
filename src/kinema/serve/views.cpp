// Jobs, outputs and engines as clients see them.
#include <fmt/format.h>

#include <algorithm>

#include "kinema/http/file_response.h"
#include "kinema/serve/queue.h"

namespace kinema::serve {
namespace {

io::Json optional_number(const std::optional<double>& number) {
  return number ? io::Json(*number) : io::Json();
}

io::Json optional_text(const std::string& text) {
  return text.empty() ? io::Json() : io::Json(text);
}

}  // namespace

io::Json to_json(const EngineState& engine) {
  return io::Json::object(
      {{"state", engine.state},
       {"model", optional_text(engine.model)},
       {"device", engine.device},
       {"message", optional_text(engine.message)},
       {"bytes", engine.bytes > 0 ? io::Json(engine.bytes) : io::Json()},
       {"bytes_limit", engine.bytes_limit > 0 ? io::Json(engine.bytes_limit) : io::Json()}});
}

io::Json to_json(const OutputRecord& output) {
  const std::string place = fmt::format("/files/{}/{}", output.id, output.path.filename().string());
  return io::Json::object(
      {{"id", output.id},
       {"job", output.job},
       {"kind", output.is_video ? "video" : "image"},
       {"type", http::media_type_of(output.path)},
       {"url", place},
       {"thumb", output.thumb.empty() ? place : fmt::format("/thumbs/{}", output.id)},
       {"width", output.width},
       {"height", output.height},
       {"frames", output.frames},
       {"seconds", output.seconds},
       {"bytes", output.bytes},
       {"model", output.model},
       {"prompt", output.prompt},
       {"seed", output.seed},
       {"index", output.index},
       {"starred", output.starred},
       {"deleted", optional_number(output.deleted)},
       {"made", output.made}});
}

io::Json Queue::job_json(const JobRecord& job) {
  std::optional<LiveJob> live = this->live();
  if (live && live->id != job.id) {
    live.reset();
  }
  const bool is_done = job.state == JobState::DONE;
  io::Json outputs = io::Json::array();
  if (is_done) {
    for (const OutputRecord& output : store_.outputs_of(job.id)) {
      outputs.append(to_json(output));
    }
  }
  io::Json notices = io::Json::array();
  for (const std::string& notice : live ? live->notices : job.notices) {
    notices.append(notice);
  }
  io::Json error;
  if (!job.error.empty()) {
    error = io::Json::object({{"message", job.error},
                              {"type", "server_error"},
                              {"param", optional_text(job.error_param)},
                              {"code", io::Json()}});
  }
  const double progress = is_done ? 1
                          : live && live->steps > 0
                              ? static_cast<double>(live->step) / static_cast<double>(live->steps)
                              : 0;
  return io::Json::object(
      {{"id", job.id},
       {"state", name_of(job.state)},
       {"place", job.place},
       {"request", to_json(job.request)},
       {"made", job.made},
       {"started", optional_number(job.started)},
       {"ended", optional_number(job.ended)},
       {"attempts", job.attempts},
       {"phase", live ? io::Json(live->phase) : io::Json()},
       {"step", live ? live->step : int64_t{0}},
       {"steps", live ? live->steps : int64_t{0}},
       {"progress", progress},
       {"seconds_left", live ? optional_number(live->seconds_left) : io::Json()},
       {"preview", live && live->previews > 0
                       ? io::Json(fmt::format("/previews/{}?n={}", job.id, live->previews))
                       : io::Json()},
       {"outputs", std::move(outputs)},
       {"notices", std::move(notices)},
       {"error", std::move(error)}});
}

void Queue::publish(const JobRecord& job) { events_.publish("job", job_json(job).dump(-1)); }

}  // namespace kinema::serve
