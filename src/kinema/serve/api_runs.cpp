// Training runs.
#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/http/file_response.h"
#include "kinema/http/json_body.h"
#include "kinema/serve/api.h"
#include "kinema/serve/foreign.h"
#include "kinema/serve/runs.h"
#include "kinema/serve/sharing.h"

namespace kinema::serve {
namespace {

using http::Refusal;
using http::Request;
using http::Response;

io::Json check_run(Context& context, Request& request) {
  io::Json out = io::Json::object(
      {{"ok", true}, {"error", io::Json()}, {"notices", io::Json::array()}, {"config", ""}});
  try {
    const CheckedRun checked =
        context.catalogue.check_run(read_run_request(http::json_body(request), {"name"}));
    io::Json notices = io::Json::array();
    for (const std::string& notice : checked.notices) {
      notices.append(notice);
    }
    out.set("notices", std::move(notices)).set("config", checked.config);
  } catch (const Refusal& refusal) {
    out.set("ok", false)
        .set("error", io::Json::parse(error_response(request, refusal).body, "error").at("error"));
  }
  return out;
}

/// Starts a run, after the engine has ended if both have no room.
void start_run(Context& context, const std::string& name) {
  if (!context.sharing.is_exclusive(context.queue.engine())) {
    return context.runs.start(name);
  }
  context.queue.without_engine("training " + name, [&] {
    context.runs.start(name);
    context.sharing.begin(name);
  });
}

io::Json create_run(Context& context, Request& request) {
  const io::Json body = http::json_body(request);
  const CheckedRun checked = context.catalogue.check_run(read_run_request(body, {"name", "start"}));
  const std::string name = text_member(body, "name");
  context.runs.create(name, checked.config);
  if (bool_member(body, "start", false)) {
    start_run(context, name);
  }
  return context.runs.run(name);
}

io::Json remove_run(Context& context, Request& request) {
  const std::string& name = request.params.at("name");
  if (text_member(http::json_body(request), "name") != name) {
    throw Refusal(422, "the run's name is not repeated in the body", "name");
  }
  context.runs.remove(name);
  return io::Json::object({{"removed", true}});
}

void add_control_routes(Api& api, Context& context) {
  api.add_json({.method = "POST",
                .pattern = "/api/runs/{name}/start",
                .summary = "Starts or resumes a run, in a process that outlives the server",
                .answer = "Run",
                .status = 202},
               [&context](Request& request) {
                 context.runs.run(request.params.at("name"));  // 404 before the engine ends
                 start_run(context, request.params.at("name"));
                 return context.runs.run(request.params.at("name"));
               });
  api.add_json({.method = "POST",
                .pattern = "/api/runs/{name}/stop",
                .summary = "Has a run save a checkpoint and end",
                .answer = "Run",
                .status = 202},
               [&context](Request& request) {
                 context.runs.stop(request.params.at("name"));
                 return context.runs.run(request.params.at("name"));
               });
  const auto add_request = [&](const char* what, const char* summary) {
    api.add_json({.method = "POST",
                  .pattern = fmt::format("/api/runs/{{name}}/{}", what),
                  .summary = summary,
                  .answer = "Run",
                  .status = 202},
                 [&context, what](Request& request) {
                   context.runs.ask(request.params.at("name"), what);
                   return context.runs.run(request.params.at("name"));
                 });
  };
  add_request("save", "Has a run save a checkpoint after its step, and go on");
  add_request("sample", "Has a run make pictures or videos of its prompts after its step");
  api.add_json({.method = "DELETE",
                .pattern = "/api/runs/{name}",
                .summary = "Removes a run that is not running; its name is repeated in the body",
                .answer = "Removed",
                .body = "RunName"},
               [&context](Request& request) { return remove_run(context, request); });
}

void add_reading_routes(Api& api, Context& context) {
  api.add_json({.method = "GET",
                .pattern = "/api/runs/{name}/metrics",
                .summary = "Loss, rate, time and gradient by step",
                .answer = "Metrics",
                .query = {{"after", "int", "steps after this one; -1: all"},
                          {"buckets", "int", "1 to 5000"}}},
               [&context](Request& request) {
                 constexpr int64_t kMost = int64_t{1} << 53;
                 return context.runs.metrics(request.params.at("name"),
                                             integer_argument(request, "after", -1, -1, kMost),
                                             integer_argument(request, "buckets", 1000, 1, 5000));
               });
  api.add_json(
      {.method = "GET",
       .pattern = "/api/runs/{name}/samples",
       .summary = "Pictures and videos that the run made, by step",
       .answer = "Samples"},
      [&context](Request& request) {
        return io::Json::object({{"samples", context.runs.samples(request.params.at("name"))}});
      });
  api.add_json({.method = "GET",
                .pattern = "/api/runs/{name}/log",
                .summary = "What the run printed; at most 64 KiB",
                .answer = "Log",
                .query = {{"after", "int", "from this byte; absent: the end"}}},
               [&context](Request& request) {
                 constexpr int64_t kMost = int64_t{1} << 53;
                 const bool has_after = request.query.contains("after");
                 const int64_t after = integer_argument(request, "after", 0, 0, kMost);
                 return context.runs.log(request.params.at("name"),
                                         has_after ? std::optional(after) : std::nullopt);
               });
  api.add({.method = "GET",
           .pattern = "/runs/{name}/samples/{step}/{file}",
           .summary = "A sample's file, with ranges"},
          [&context](Request& request) {
            const auto path = context.runs.sample_file(
                request.params.at("name"), request.params.at("step"), request.params.at("file"));
            return http::file_response(request, path, http::media_type_of(path));
          });
}

}  // namespace

RunRequest read_run_request(const io::Json& json, std::initializer_list<std::string_view> more) {
  for (const auto& [name, value] : json.members()) {
    static constexpr std::string_view kFields[] = {"base", "dataset", "settings", "yaml"};
    if (std::ranges::find(kFields, name) == std::end(kFields) &&
        std::ranges::find(more, name) == more.end()) {
      throw Refusal(422, fmt::format("there is no field `{}`", name), name);
    }
  }
  RunRequest out{.base = text_member(json, "base"),
                 .dataset = text_member(json, "dataset"),
                 .yaml = text_member(json, "yaml")};
  if (const io::Json* settings = json.find("settings");
      settings != nullptr && !settings->is_null()) {
    if (!settings->is_object()) {
      throw Refusal(422, "`settings` is " + settings->describe() + ", expected an object",
                    "settings");
    }
    out.settings = *settings;
  }
  return out;
}

void add_run_routes(Api& api, Context& context) {
  api.add_json({.method = "GET",
                .pattern = "/api/bases",
                .summary = "Configurations that a run can start from",
                .answer = "Bases"},
               [&context](Request&) {
                 io::Json bases = io::Json::array();
                 for (const Base& base : context.catalogue.bases()) {
                   bases.append(io::Json::object({{"name", base.name}, {"help", base.help}}));
                 }
                 return io::Json::object({{"bases", std::move(bases)}});
               });
  api.add_json(
      {.method = "POST",
       .pattern = "/api/runs/check",
       .summary = "Whether a run would be accepted, and its configuration; 200 also if not",
       .answer = "RunCheck",
       .body = "RunRequest"},
      [&context](Request& request) { return check_run(context, request); });
  api.add_json({.method = "POST",
                .pattern = "/api/runs",
                .summary = "Makes a run, and starts it if `start` is true",
                .answer = "Run",
                .body = "RunRequest",
                .status = 201},
               [&context](Request& request) { return create_run(context, request); });
  api.add_json({.method = "GET", .pattern = "/api/runs", .summary = "All runs", .answer = "Runs"},
               [&context](Request&) {
                 return io::Json::object({{"runs", context.runs.list()}});
               });
  api.add_json(
      {.method = "GET",
       .pattern = "/api/runs/{name}",
       .summary = "A run and its configuration",
       .answer = "RunDetails"},
      [&context](Request& request) { return context.runs.details(request.params.at("name")); });
  add_control_routes(api, context);
  add_reading_routes(api, context);
}

}  // namespace kinema::serve
