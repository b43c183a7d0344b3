// State, events, models and keys.
#include <filesystem>

#include "kinema/http/file_response.h"
#include "kinema/http/json_body.h"
#include "kinema/serve/api.h"

namespace kinema::serve {
namespace {

using http::Request;
using http::Response;

io::Json state_json(Context& context) {
  // Before everything else: what happens meanwhile comes again as an event.
  const auto event = static_cast<int64_t>(context.events.last());
  io::Json jobs = io::Json::array();
  for (const JobRecord& job : context.store.current_jobs(50)) {
    jobs.append(context.queue.job_json(job));
  }
  io::Json out = io::Json::object({{"version", context.options.version},
                                   {"event", event},
                                   {"paused", context.queue.is_paused()},
                                   {"engine", to_json(context.queue.engine())}});
  out.set("limits", io::Json::object({{"count", context.queue.most_count()},
                                      {"queue", context.queue.most_waiting()},
                                      {"upload_bytes", context.options.upload_bytes},
                                      {"downloads", context.downloads != nullptr},
                                      {"training", !context.options.train.empty()}}));
  const io::Json models = models_json(context);
  return out.set("models", models.at("models"))
      .set("loras", models.at("loras"))
      .set("jobs", std::move(jobs))
      .set("runs", context.runs.list());
}

Response event_response(Context& context, Request& request) {
  const std::string_view field = request.headers.get("last-event-id");
  const std::string after = field.empty() ? request.argument("after") : std::string(field);
  return {.events = context.stream,
          .events_after = after.empty() ? context.events.last() : http::read_event_id(after)};
}

}  // namespace

io::Json models_json(Context& context) {
  const std::string loaded = context.queue.engine().model;
  io::Json models = io::Json::array();
  for (const Model& model : context.catalogue.models()) {
    models.append(to_json(model, loaded));
  }
  io::Json loras = io::Json::array();
  for (const Lora& lora : context.catalogue.loras()) {
    loras.append(to_json(lora));
  }
  return io::Json::object({{"models", std::move(models)}, {"loras", std::move(loras)}});
}

void add_state_routes(Api& api, Context& context) {
  api.add_json({.method = "GET",
                .pattern = "/api/state",
                .summary = "Everything that a page shows, and the number of the last event",
                .answer = "State"},
               [&context](Request&) { return state_json(context); });
  api.add(
      {.method = "GET",
       .pattern = "/api/events",
       .summary = "Server-sent events: job, removed, output, engine, queue, run, points, sample, "
                  "plan, models, download, notice, reset (ask for the state again) and bye",
       .query = {{"after", "int", "the last event that the client has; Last-Event-ID wins"}}},
      [&context](Request& request) { return event_response(context, request); });
  api.add_json({.method = "GET",
                .pattern = "/api/models",
                .summary = "Models and LoRAs",
                .answer = "Models"},
               [&context](Request&) { return models_json(context); });
  api.add_json({.method = "POST",
                .pattern = "/api/models/refresh",
                .summary = "Looks at the folders of models and LoRAs again",
                .answer = "Models"},
               [&context](Request&) {
                 context.catalogue.refresh();
                 io::Json out = models_json(context);
                 context.events.publish("models", out.dump(-1));
                 return out;
               });
  api.add_json({.method = "POST",
                .pattern = "/api/models/{name}/load",
                .summary = "Starts the engine; `engine` events follow",
                .answer = "Engine",
                .status = 202},
               [&context](Request& request) {
                 context.queue.load(request.params.at("name"));
                 return to_json(context.queue.engine());
               });
  api.add_json({.method = "POST",
                .pattern = "/api/engine/unload",
                .summary = "Ends the engine if it does nothing, which gives its memory back",
                .answer = "Engine",
                .status = 202},
               [&context](Request&) {
                 context.queue.unload();
                 return to_json(context.queue.engine());
               });
  api.add_json({.method = "GET",
                .pattern = "/api/keys",
                .summary = "Keys that clients may set and that have an effect",
                .answer = "Keys",
                .query = {{"for", "text", "generate or train"},
                          {"model", "text", "the name of a model"},
                          {"base", "text", "the name of a base, for train"}}},
               [&context](Request& request) {
                 io::Json keys = io::Json::array();
                 const bool is_training = request.argument("for") == "train";
                 for (const Key& key :
                      is_training ? context.catalogue.training_keys(request.argument("base"))
                                  : context.catalogue.keys(
                                        context.catalogue.model(request.argument("model")).name)) {
                   keys.append(to_json(key));
                 }
                 return io::Json::object({{"keys", std::move(keys)}});
               });
  api.add_json({.method = "GET",
                .pattern = "/healthz",
                .summary = "Whether the server answers; needs no token",
                .answer = "Health",
                .access = http::Access::OPEN},
               [](Request&) {
                 return io::Json::object({{"ok", true}});
               });
}

}  // namespace kinema::serve
