// Jobs and the queue.
#include "kinema/http/json_body.h"
#include "kinema/serve/api.h"

namespace kinema::serve {
namespace {

using http::Refusal;
using http::Request;

io::Json check_request(Context& context, Request& request) {
  io::Json out = io::Json::object({{"ok", true},
                                   {"error", io::Json()},
                                   {"notices", io::Json::array()},
                                   {"seconds", io::Json()},
                                   {"bytes", io::Json()},
                                   {"bytes_limit", io::Json()}});
  MakeRequest asked;
  try {
    asked = read_request(http::json_body(request));
    io::Json notices = io::Json::array();
    for (const std::string& notice : context.queue.prepare(asked)) {
      notices.append(notice);
    }
    const Estimate needs = context.queue.estimate(asked);
    const EngineState engine = context.queue.engine();
    out.set("notices", std::move(notices))
        .set("seconds", needs.seconds ? io::Json(*needs.seconds) : io::Json())
        .set("bytes", needs.bytes ? io::Json(*needs.bytes) : io::Json())
        .set("bytes_limit", engine.bytes_limit > 0 ? io::Json(engine.bytes_limit) : io::Json());
  } catch (const Refusal& refusal) {
    const io::Json error =
        io::Json::parse(error_response(request, refusal).body, "the error").at("error");
    out.set("ok", false).set("error", error);
  }
  return out;
}

http::Response add_job(Context& context, Request& request) {
  const io::Json body = http::json_body(request);
  const io::Json* key = body.find("client_key");
  const std::string client_key = key == nullptr || key->is_null() ? "" : "page:" + key->as_string();
  bool is_new = true;
  const JobRecord job = context.queue.add(read_request(body), "page", client_key, &is_new);
  return http::json_response(is_new ? 201 : 200, context.queue.job_json(job));
}

io::Json list_jobs(Context& context, Request& request) {
  const int64_t limit = integer_argument(request, "limit", 50, 1, 200);
  const std::vector<JobRecord> found = context.store.jobs_before(request.argument("before"), limit);
  io::Json jobs = io::Json::array();
  for (const JobRecord& job : found) {
    jobs.append(context.queue.job_json(job));
  }
  const bool is_last = static_cast<int64_t>(found.size()) < limit;
  return io::Json::object(
      {{"jobs", std::move(jobs)}, {"next", is_last ? io::Json() : io::Json(found.back().id)}});
}

/// With `wait`, the answer comes when the job has ended or the time is over.
void get_job(Context& context, Request& request, const http::Reply& reply) {
  const std::string id = request.params.at("id");
  const JobRecord job = context.queue.find(id);
  const int64_t seconds = integer_argument(request, "wait", 0, 0, 60);
  const auto answer = [&context, id, reply] {
    const auto now = context.store.job(id);
    reply.send(now ? http::json_response(200, context.queue.job_json(*now))
                   : http::json_response(404, io::Json::object()));
  };
  if (seconds == 0 || job.has_ended()) {
    return answer();
  }
  context.queue.wait({.job = id,
                      .until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds),
                      .done = answer});
}

void add_preview_route(Api& api, Context& context) {
  api.add({.method = "GET",
           .pattern = "/previews/{id}",
           .summary = "The newest preview of the running job",
           .query = {{"n", "int", "its number, which makes addresses different"}}},
          [&context](Request& request) {
            const std::optional<LiveJob> live = context.queue.live();
            if (!live || live->id != request.params.at("id") || live->previews == 0) {
              throw Refusal(404, "there is no preview of this job");
            }
            const bool is_png = live->preview->starts_with("\x89PNG");
            return http::Response{.headers = {{"Content-Type", is_png ? "image/png" : "image/jpeg"},
                                              {"Cache-Control", "no-store"}},
                                  .body = *live->preview};
          });
}

}  // namespace

void add_job_routes(Api& api, Context& context) {
  add_preview_route(api, context);
  const auto job_of = [&context](const JobRecord& job) { return context.queue.job_json(job); };
  api.add_json({.method = "POST",
                .pattern = "/api/check",
                .summary = "Whether a request would be accepted; 200 also if not",
                .answer = "Check",
                .body = "Request"},
               [&context](Request& request) { return check_request(context, request); });
  api.add({.method = "POST",
           .pattern = "/api/jobs",
           .summary = "Adds a job; 200 with the job of a known client_key",
           .answer = "Job",
           .body = "Request",
           .status = 201},
          [&context](Request& request) { return add_job(context, request); });
  api.add_json({.method = "GET",
                .pattern = "/api/jobs",
                .summary = "Jobs, newest first",
                .answer = "Jobs",
                .query = {{"before", "text", "the id of a job"}, {"limit", "int", "1 to 200"}}},
               [&context](Request& request) { return list_jobs(context, request); });
  api.add({.method = "GET",
           .pattern = "/api/jobs/{id}",
           .summary = "A job",
           .answer = "Job",
           .query = {{"wait", "int", "seconds to wait for its end, at most 60"}}},
          http::Route::Handler([&context](Request& request, const http::Reply& reply) {
            get_job(context, request, reply);
          }));
  api.add_json({.method = "PATCH",
                .pattern = "/api/jobs/{id}",
                .summary = "Another request in the place of a job that waits",
                .answer = "Job",
                .body = "Request"},
               [&context, job_of](Request& request) {
                 return job_of(context.queue.edit(request.params.at("id"),
                                                  read_request(http::json_body(request))));
               });
  api.add_json({.method = "POST",
                .pattern = "/api/jobs/{id}/move",
                .summary = "Moves a job that waits before another one; null: to the end",
                .answer = "Job",
                .body = "Move"},
               [&context, job_of](Request& request) {
                 const io::Json body = http::json_body(request);
                 const io::Json* before = body.find("before");
                 return job_of(context.queue.move(
                     request.params.at("id"),
                     before == nullptr || before->is_null() ? "" : before->as_string()));
               });
  api.add_json({.method = "POST",
                .pattern = "/api/jobs/{id}/cancel",
                .summary = "Cancels a job; one that runs ends soon after",
                .answer = "Job"},
               [&context, job_of](Request& request) {
                 return job_of(context.queue.cancel(request.params.at("id")));
               });
  api.add_json({.method = "POST",
                .pattern = "/api/jobs/{id}/retry",
                .summary = "A new job of the same request; with another seed if the first was done",
                .answer = "Job",
                .status = 201},
               [&context, job_of](Request& request) {
                 return job_of(context.queue.retry(request.params.at("id")));
               });
  api.add_json({.method = "DELETE",
                .pattern = "/api/jobs/{id}",
                .summary = "Forgets a job that has ended; its outputs stay",
                .answer = "Removed"},
               [&context](Request& request) {
                 context.queue.remove(request.params.at("id"));
                 return io::Json::object({{"removed", true}});
               });
  api.add_json({.method = "POST",
                .pattern = "/api/queue",
                .summary = "Pauses the queue or lets it go on; the running job is finished",
                .answer = "Paused",
                .body = "Paused"},
               [&context](Request& request) {
                 context.queue.pause(http::json_body(request).at("paused").as_bool());
                 return io::Json::object({{"paused", context.queue.is_paused()}});
               });
}

}  // namespace kinema::serve
