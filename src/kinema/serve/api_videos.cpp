// OpenAI's API of videos (https://platform.openai.com/docs/api-reference/videos), for its clients.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/http/file_response.h"
#include "kinema/http/json_body.h"
#include "kinema/io/mapped_file.h"
#include "kinema/serve/foreign.h"
#include "kinema/serve/openai_request.h"

namespace kinema::serve {
namespace {

using http::Refusal;
using http::Request;
using http::Response;

const char* const kVideoSource = "openai-videos";

/// The id of the job that a remix began with; empty for others.
std::string remixed_from(const JobRecord& job) {
  const std::string prefix = std::string(kVideoSource) + ":";
  return job.source.starts_with(prefix) ? job.source.substr(prefix.size()) : "";
}

JobRecord find_video(Context& context, const std::string& id) {
  const auto job = context.store.job(id);
  if (!job || !job->source.starts_with(kVideoSource)) {
    throw Refusal(404, "there is no such video", "", "not_found");
  }
  return *job;
}

std::string_view openai_state(JobState state) {
  switch (state) {
    case JobState::WAITING:
      return "queued";
    case JobState::RUNNING:
      return "in_progress";
    case JobState::DONE:
      return "completed";
    default:
      return "failed";
  }
}

double fps_of(const Model& model) {
  const io::Json* fps = model.defaults.find("fps");
  return fps == nullptr ? 16.0 : fps->as_number();
}

/// A setting of the request, else of the model.
int64_t integer_setting(const JobRecord& job, const Model& model, const std::string& key) {
  const io::Json* given = job.request.settings.find(key);
  return integer_member(given == nullptr ? model.defaults : job.request.settings, key, 0);
}

io::Json video_json(Context& context, const JobRecord& job) {
  const io::Json state = context.queue.job_json(job);
  const Model model = context.catalogue.model(job.request.model);
  const double seconds =
      static_cast<double>(integer_setting(job, model, "num_frames")) / fps_of(model);
  io::Json error;
  if (job.state == JobState::FAILED || job.state == JobState::CANCELLED) {
    const std::string message = job.error.empty() ? "the job was cancelled" : job.error;
    error = io::Json::object({{"code", "failed"}, {"message", message}});
  }
  const std::string origin = remixed_from(job);
  const auto time = [](const std::optional<double>& seconds) {
    return seconds ? io::Json(static_cast<int64_t>(*seconds)) : io::Json();
  };
  return io::Json::object(
      {{"id", job.id},
       {"object", "video"},
       {"model", job.request.model},
       {"status", openai_state(job.state)},
       {"progress", static_cast<int64_t>(std::lround(100 * state.at("progress").as_number()))},
       {"created_at", static_cast<int64_t>(job.made)},
       {"completed_at", job.state == JobState::DONE ? time(job.ended) : io::Json()},
       {"expires_at", io::Json()},
       {"prompt", job.request.prompt()},
       {"size", fmt::format("{}x{}", integer_setting(job, model, "width"),
                            integer_setting(job, model, "height"))},
       {"seconds", fmt::format("{:.0f}", std::max(1.0, std::round(seconds)))},
       {"remixed_from_video_id", origin.empty() ? io::Json() : io::Json(origin)},
       {"error", std::move(error)}});
}

/// The nearest number of frames 1 + k * step.
int64_t frames_of(const Model& model, double seconds) {
  const double step = static_cast<double>(model.frames_step);
  const double steps = std::round((seconds * fps_of(model) - 1) / step);
  return 1 + static_cast<int64_t>(std::max(0.0, steps) * step);
}

/// `input_reference` of a JSON request: {"image_url": data URL} or {"file_id": id of an upload}.
void read_reference(Context& context, OpenAiFields& fields) {
  const io::Json* reference = fields.json.find("input_reference");
  if (reference == nullptr || reference->is_null()) {
    return;
  }
  if (!reference->is_object()) {
    throw Refusal(400, "`input_reference` is " + reference->describe() + ", expected an object",
                  "input_reference");
  }
  const std::string url = text_member(*reference, "image_url");
  fields.inputs["image"] = url.empty() ? text_member(*reference, "file_id")
                                       : upload_base64(context, url, "input_reference");
}

/// The fields of a form or of JSON; `body` is what was sent.
OpenAiFields read_fields(Context& context, const Request& request, std::string& body) {
  if (!request.file) {
    throw Refusal(400, "the request has no body");
  }
  const io::MappedFile file = io::MappedFile::open(request.file->path());
  body.assign(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (request.media_type() == "multipart/form-data") {
    return read_openai_form(context, std::string(request.headers.get("content-type")), body);
  }
  OpenAiFields out{.json = http::json_body({.body = body})};
  read_reference(context, out);
  return out;
}

io::Json create_video(Context& context, const Request& request) {
  std::string body;
  const OpenAiFields fields = read_fields(context, request, body);
  MakeRequest asked = openai_request(context, fields);
  const Model model = context.catalogue.model(asked.model);
  if (!model.is_video) {
    throw Refusal(400,
                  fmt::format("the model {} makes images: ask /v1/images/generations", model.name),
                  "model");
  }
  if (fields.json.contains("seconds")) {
    const double seconds = number_member(fields.json, "seconds", 4);
    constexpr double kMost = 3600;
    if (!(seconds > 0 && seconds <= kMost)) {
      throw Refusal(400,
                    fmt::format("`seconds` is {}, expected above 0 and at most {}", seconds, kMost),
                    "seconds");
    }
    asked.settings.set("num_frames", frames_of(model, seconds));
  }
  return video_json(context, add_retried(context, request, body, std::move(asked), kVideoSource));
}

io::Json remix_video(Context& context, Request& request) {
  const JobRecord job = find_video(context, request.params.at("id"));
  MakeRequest asked = job.request;
  const std::string prompt = text_member(http::json_body(request), "prompt");
  if (prompt.empty()) {
    throw Refusal(400, "`prompt` is missing", "prompt");
  }
  asked.settings.set("prompt", prompt);
  return video_json(
      context, context.queue.add(std::move(asked), fmt::format("{}:{}", kVideoSource, job.id)));
}

Response video_content(Context& context, const Request& request) {
  const JobRecord job = find_video(context, request.params.at("id"));
  const std::vector<OutputRecord> outputs = context.store.outputs_of(job.id);
  if (job.state != JobState::DONE || outputs.empty()) {
    throw Refusal(job.has_ended() ? 404 : 409,
                  fmt::format("the video is {}", openai_state(job.state)));
  }
  const std::string variant = request.argument("variant");
  if (variant == "thumbnail") {
    return http::file_response(request, outputs.front().thumb,
                               http::media_type_of(outputs.front().thumb));
  }
  if (!variant.empty() && variant != "video") {
    throw Refusal(400, fmt::format("there is no variant `{}`, only video and thumbnail", variant),
                  "variant");
  }
  return http::file_response(request, outputs.front().path,
                             http::media_type_of(outputs.front().path));
}

io::Json list_videos(Context& context, const Request& request) {
  const int64_t limit = integer_argument(request, "limit", 20, 1, 100);
  const bool is_ascending = request.argument("order") == "asc";
  std::vector<JobRecord> videos;
  std::string before = request.argument("after");
  // Jobs of other APIs lie between.
  while (static_cast<int64_t>(videos.size()) <= limit) {
    const std::vector<JobRecord> found = context.store.jobs_before(before, 200);
    for (const JobRecord& job : found) {
      if (job.source.starts_with(kVideoSource)) {
        videos.push_back(job);
      }
    }
    if (found.empty()) {
      break;
    }
    before = found.back().id;
  }
  const bool has_more = static_cast<int64_t>(videos.size()) > limit;
  videos.resize(std::min(videos.size(), static_cast<size_t>(limit)));
  if (is_ascending) {
    std::ranges::reverse(videos);
  }
  io::Json data = io::Json::array();
  for (const JobRecord& job : videos) {
    data.append(video_json(context, job));
  }
  const auto id = [&](bool is_first) {
    return videos.empty() ? io::Json() : io::Json(is_first ? videos.front().id : videos.back().id);
  };
  return io::Json::object({{"object", "list"},
                           {"data", std::move(data)},
                           {"first_id", id(true)},
                           {"last_id", id(false)},
                           {"has_more", has_more}});
}

io::Json remove_video(Context& context, const Request& request) {
  const JobRecord job = find_video(context, request.params.at("id"));
  if (!job.has_ended()) {
    context.queue.cancel(job.id);
  }
  for (const OutputRecord& output : context.store.outputs_of(job.id)) {
    context.store.set_deleted(output.id, now());
  }
  context.store.remove_job(job.id);
  return io::Json::object({{"id", job.id}, {"object", "video.deleted"}, {"deleted", true}});
}

}  // namespace

void add_video_routes(Api& api, Context& context) {
  api.add_json({.method = "POST",
                .pattern = "/v1/videos",
                .summary = "OpenAI: a video (form or JSON: prompt, model, seconds, size, "
                           "input_reference)",
                .answer = "OpenAiVideo",
                .rule = {.limit = 64 << 20,
                         .types = {"multipart/form-data", "application/json"},
                         .to_file = true}},
               [&context](Request& request) { return create_video(context, request); });
  api.add_json({.method = "GET",
                .pattern = "/v1/videos",
                .summary = "OpenAI: videos, newest first",
                .answer = "OpenAiVideos",
                .query = {{"after", "text", "the id of a video"},
                          {"limit", "int", "1 to 100"},
                          {"order", "text", "asc or desc"}}},
               [&context](Request& request) { return list_videos(context, request); });
  api.add_json({.method = "GET",
                .pattern = "/v1/videos/{id}",
                .summary = "OpenAI: a video",
                .answer = "OpenAiVideo"},
               [&context](Request& request) {
                 return video_json(context, find_video(context, request.params.at("id")));
               });
  api.add({.method = "GET",
           .pattern = "/v1/videos/{id}/content",
           .summary = "OpenAI: the mp4, with ranges",
           .query = {{"variant", "text", "video or thumbnail"}}},
          [&context](Request& request) { return video_content(context, request); });
  api.add_json({.method = "POST",
                .pattern = "/v1/videos/{id}/remix",
                .summary = "OpenAI: the same video of another prompt",
                .answer = "OpenAiVideo"},
               [&context](Request& request) { return remix_video(context, request); });
  api.add_json({.method = "DELETE",
                .pattern = "/v1/videos/{id}",
                .summary = "OpenAI: cancels a video or puts it into the bin",
                .answer = "OpenAiDeleted"},
               [&context](Request& request) { return remove_video(context, request); });
}

}  // namespace kinema::serve
