// Plans for devices that need not be here.
#include <fmt/format.h>

#include "kinema/http/json_body.h"
#include "kinema/serve/api.h"
#include "kinema/serve/foreign.h"
#include "kinema/serve/plans.h"

namespace kinema::serve {
namespace {

using http::Refusal;
using http::Request;

io::Json devices_json(Context& context) {
  io::Json devices = io::Json::array();
  for (const PlanDevice& device : context.catalogue.devices()) {
    devices.append(io::Json::object({{"name", device.name},
                                     {"what", device.what},
                                     {"bytes", device.bytes},
                                     {"compiler", device.has_compiler}}));
  }
  io::Json here = io::Json::array();
  if (const EngineState engine = context.queue.engine(); engine.devices > 0) {
    here.append(io::Json::object(
        {{"name", engine.device},
         {"platform", engine.platform},
         {"count", engine.devices},
         {"bytes", engine.bytes > 0 ? io::Json(engine.bytes) : io::Json()},
         {"bytes_limit", engine.bytes_limit > 0 ? io::Json(engine.bytes_limit) : io::Json()}}));
  }
  return io::Json::object({{"devices", std::move(devices)}, {"here", std::move(here)}});
}

io::Json start_plan(Context& context, Request& request) {
  const io::Json body = http::json_body(request);
  for (const auto& [name, value] : body.members()) {
    if (name != "device" && name != "run" && name != "job") {
      throw Refusal(422, fmt::format("there is no field `{}`", name), name);
    }
  }
  const std::string device = text_member(body, "device");
  context.catalogue.check_device(device);
  const io::Json* run = body.find("run");
  const io::Json* job = body.find("job");
  if ((run == nullptr) == (job == nullptr)) {
    throw Refusal(422, "a plan is of a `run` or of a `job`", "job");
  }
  if (run != nullptr) {
    return context.plans.start(context.catalogue.check_run(read_run_request(*run, {})).config,
                               "train", device);
  }
  MakeRequest asked = read_request(*job);
  // The seed changes nothing of a plan, and a drawn one would make each plan a new one.
  asked.settings.set("seed", int64_t{0});
  context.queue.prepare(asked);
  return context.plans.start(context.catalogue.plan_config(asked), "generate", device);
}

}  // namespace

void add_plan_routes(Api& api, Context& context) {
  api.add_json({.method = "GET",
                .pattern = "/api/devices",
                .summary = "Kinds of devices that plans are made for, and the device here, once "
                           "the engine has used it",
                .answer = "Devices"},
               [&context](Request&) { return devices_json(context); });
  api.add_json({.method = "POST",
                .pattern = "/api/plans",
                .summary = "Compiles a run or a job for a device, in a process of its own; `plan` "
                           "events follow. Equal ones are compiled once",
                .answer = "Plan",
                .body = "PlanRequest",
                .status = 202},
               [&context](Request& request) { return start_plan(context, request); });
  api.add_json(
      {.method = "GET", .pattern = "/api/plans/{id}", .summary = "A plan", .answer = "Plan"},
      [&context](Request& request) { return context.plans.get(request.params.at("id")); });
  api.add_json(
      {.method = "POST",
       .pattern = "/api/plans/{id}/cancel",
       .summary = "Ends a plan that is being made",
       .answer = "Plan"},
      [&context](Request& request) { return context.plans.cancel(request.params.at("id")); });
}

}  // namespace kinema::serve
