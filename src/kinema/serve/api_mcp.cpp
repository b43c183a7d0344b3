// The Model Context Protocol over HTTP, for assistants: JSON-RPC in the bodies of POST /mcp
// (modelcontextprotocol.io/specification/2025-06-18/basic/transports). Each request is complete in
// itself, so there are no sessions and no streams.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/http/file_response.h"
#include "kinema/http/json_body.h"
#include "kinema/serve/foreign.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using http::Refusal;
using http::Request;
using http::Response;

constexpr std::array<std::string_view, 3> kVersions{"2025-06-18", "2025-03-26", "2024-11-05"};

// Of JSON-RPC 2.0.
constexpr int64_t kNoJson = -32700;
constexpr int64_t kNoRequest = -32600;
constexpr int64_t kNoMethod = -32601;
constexpr int64_t kNoParams = -32602;

constexpr int64_t kMostWait = 600;         // seconds
constexpr uintmax_t kMostImage = 4 << 20;  // bytes of a picture in an answer

io::Json object(std::vector<std::pair<std::string, io::Json>> members) {
  io::Json out = io::Json::object();
  for (auto& [name, value] : members) {
    out.set(name, std::move(value));
  }
  return out;
}

io::Json property(const char* type, const char* about) {
  return io::Json::object({{"type", type}, {"description", about}});
}

io::Json tool(const char* name, const char* about, io::Json properties, io::Json required) {
  return io::Json::object({{"name", name},
                           {"description", about},
                           {"inputSchema", io::Json::object({{"type", "object"},
                                                             {"properties", std::move(properties)},
                                                             {"required", std::move(required)},
                                                             {"additionalProperties", false}})}});
}

io::Json tools() {
  const io::Json wait = property("integer", "seconds to wait for the end, 0 to 600; 120 if absent");
  return io::Json::array(
      {tool("generate_image",
            "Makes pictures, or videos with a model of videos, and returns them; if it takes "
            "longer than wait_seconds, the id of the job, for get_job.",
            object({{"prompt", property("string", "what the picture shows")},
                    {"model", property("string", "a name of list_models; the first if absent")},
                    {"negative_prompt", property("string", "what it does not show")},
                    {"width", property("integer", "pixels")},
                    {"height", property("integer", "pixels")},
                    {"steps", property("integer", "of the sampler")},
                    {"seed", property("integer", "the same seed makes the same picture")},
                    {"count", property("integer", "pictures, 1 if absent")},
                    {"wait_seconds", wait}}),
            io::Json::array({"prompt"})),
       tool("list_models", "The models that can be asked, with their usual sizes.",
            io::Json::object(), io::Json::array()),
       tool("get_job", "The state of a job, and its pictures when it is done.",
            object({{"id", property("string", "of generate_image")}, {"wait_seconds", wait}}),
            io::Json::array({"id"}))});
}

Response result_response(const io::Json& id, io::Json result) {
  return http::json_response(
      200, io::Json::object({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}}));
}

Response error_answer(int status, const io::Json& id, int64_t code, const std::string& message) {
  return http::json_response(
      status,
      io::Json::object({{"jsonrpc", "2.0"},
                        {"id", id},
                        {"error", io::Json::object({{"code", code}, {"message", message}})}}));
}

io::Json text_content(const std::string& text) {
  return io::Json::object({{"type", "text"}, {"text", text}});
}

io::Json tool_error(const std::string& message) {
  return io::Json::object(
      {{"content", io::Json::array({text_content(message)})}, {"isError", true}});
}

/// A job's state as text, and its pictures; of videos and large pictures their thumbnails.
io::Json job_result(Context& context, const JobRecord& job) {
  if (job.state == JobState::FAILED || job.state == JobState::CANCELLED) {
    return tool_error(job.state == JobState::FAILED ? job.error : "the job was cancelled");
  }
  io::Json about = io::Json::object({{"id", job.id}, {"state", name_of(job.state)}});
  io::Json content = io::Json::array();
  io::Json outputs = io::Json::array();
  for (const OutputRecord& output : context.store.outputs_of(job.id)) {
    const io::Json seen = to_json(output);
    outputs.append(object({{"url", seen.at("url")},
                           {"width", output.width},
                           {"height", output.height},
                           {"seed", output.seed}}));
    std::error_code error;
    const bool is_small =
        !output.is_video && fs::file_size(output.path, error) <= kMostImage && !error;
    const fs::path& shown = is_small ? output.path : output.thumb;
    if (!shown.empty()) {
      content.append(io::Json::object({{"type", "image"},
                                       {"data", file_base64(shown)},
                                       {"mimeType", http::media_type_of(shown)}}));
    }
  }
  about.set("outputs", std::move(outputs));
  content.append(text_content(about.dump(-1)));
  return io::Json::object({{"content", std::move(content)}, {"isError", false}});
}

io::Json models_result(Context& context) {
  io::Json models = io::Json::array();
  for (const Model& model : context.catalogue.models()) {
    const io::Json seen = to_json(model, "");
    models.append(object({{"name", seen.at("name")},
                          {"kind", seen.at("kind")},
                          {"family", seen.at("family")},
                          {"sizes", seen.at("sizes")}}));
  }
  return io::Json::object(
      {{"content", io::Json::array({text_content(models.dump(-1))})}, {"isError", false}});
}

void refuse_others(const io::Json& arguments, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : arguments.members()) {
    if (std::ranges::find(known, name) == known.end()) {
      throw Refusal(422, fmt::format("there is no argument `{}`", name), name);
    }
  }
}

JobRecord add_image_job(Context& context, const io::Json& arguments) {
  refuse_others(arguments, {"prompt", "model", "negative_prompt", "width", "height", "steps",
                            "seed", "count", "wait_seconds"});
  MakeRequest request{.model = text_member(arguments, "model"),
                      .count = integer_member(arguments, "count", 1)};
  if (request.count < 1) {
    throw Refusal(422, "`count` is below 1", "count");
  }
  request.settings.set("prompt", text_member(arguments, "prompt"));
  for (const auto& [name, key] : {std::pair{"width", "width"},
                                  {"height", "height"},
                                  {"steps", "num_inference_steps"},
                                  {"seed", "seed"}}) {
    if (const io::Json* value = arguments.find(name); value != nullptr && !value->is_null()) {
      request.settings.set(key, integer_member(arguments, name, 0));
    }
  }
  if (const std::string negative = text_member(arguments, "negative_prompt"); !negative.empty()) {
    request.settings.set("negative_prompt", negative);
  }
  return context.queue.add(std::move(request), "mcp");
}

void call_tool(Context& context, const io::Json& id, const io::Json& params,
               const http::Reply& reply) {
  const std::string name = text_member(params, "name");
  const io::Json* given = params.find("arguments");
  const io::Json arguments = given == nullptr || given->is_null() ? io::Json::object() : *given;
  if (!arguments.is_object()) {
    return reply.send(error_answer(200, id, kNoParams, "`arguments` is no object"));
  }
  std::string job;
  int64_t seconds = 0;
  try {
    if (name == "list_models") {
      refuse_others(arguments, {});
      return reply.send(result_response(id, models_result(context)));
    }
    const bool makes = name == "generate_image";
    if (!makes && name != "get_job") {
      return reply.send(error_answer(200, id, kNoParams, "there is no tool `" + name + "`"));
    }
    seconds = std::clamp<int64_t>(integer_member(arguments, "wait_seconds", makes ? 120 : 0), 0,
                                  kMostWait);
    if (makes) {
      job = add_image_job(context, arguments).id;
    } else {
      refuse_others(arguments, {"id", "wait_seconds"});
      job = context.queue.find(text_member(arguments, "id")).id;
    }
  } catch (const Refusal& refusal) {
    return reply.send(result_response(id, tool_error(refusal.message)));
  }
  // A client that leaves may ask for the job again: it is not cancelled.
  context.queue.wait({.job = job,
                      .until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds),
                      .done = [&context, id, job, reply] {
                        const auto now = context.store.job(job);
                        reply.send(result_response(
                            id, now ? job_result(context, *now) : tool_error("it was removed")));
                      }});
}

io::Json initialized(const Context& context, const io::Json& params) {
  const std::string asked = text_member(params, "protocolVersion");
  const bool is_known = std::ranges::find(kVersions, asked) != kVersions.end();
  return io::Json::object(
      {{"protocolVersion", is_known ? asked : std::string(kVersions.front())},
       {"capabilities", io::Json::object({{"tools", io::Json::object()}})},
       {"serverInfo",
        io::Json::object({{"name", "kinema"}, {"version", context.options.version}})}});
}

void answer_mcp(Context& context, Request& request, const http::Reply& reply) {
  const std::string_view version = request.headers.get("mcp-protocol-version");
  if (!version.empty() && std::ranges::find(kVersions, version) == kVersions.end()) {
    return reply.send(
        error_answer(400, {}, kNoRequest, fmt::format("there is no protocol version {}", version)));
  }
  io::Json body;
  try {
    body = http::json_body(request);
  } catch (const Refusal& refusal) {
    return reply.send(error_answer(400, {}, kNoJson, refusal.message));
  }
  const io::Json* method = body.is_object() ? body.find("method") : nullptr;
  const io::Json* id = body.is_object() ? body.find("id") : nullptr;
  if (!body.is_object() || (method != nullptr && !method->is_string())) {
    return reply.send(error_answer(400, {}, kNoRequest, "the body is no JSON-RPC request"));
  }
  if (method == nullptr || id == nullptr) {  // an answer or a notification
    return reply.send({.status = 202});
  }
  const io::Json* given = body.find("params");
  const io::Json params = given != nullptr && given->is_object() ? *given : io::Json::object();
  const std::string& name = method->as_string();
  try {
    if (name == "initialize") {
      reply.send(result_response(*id, initialized(context, params)));
    } else if (name == "ping") {
      reply.send(result_response(*id, io::Json::object()));
    } else if (name == "tools/list") {
      reply.send(result_response(*id, io::Json::object({{"tools", tools()}})));
    } else if (name == "tools/call") {
      call_tool(context, *id, params, reply);
    } else {
      reply.send(error_answer(200, *id, kNoMethod, "there is no method `" + name + "`"));
    }
  } catch (const Refusal& refusal) {
    reply.send(error_answer(200, *id, kNoParams, refusal.message));
  }
}

}  // namespace

void add_mcp_routes(Api& api, Context& context) {
  api.add({.method = "POST",
           .pattern = "/mcp",
           .summary = "Model Context Protocol: a JSON-RPC request; the tools are generate_image, "
                      "list_models and get_job"},
          http::Route::Handler([&context](Request& request, const http::Reply& reply) {
            answer_mcp(context, request, reply);
          }));
  api.add({.method = "GET",
           .pattern = "/mcp",
           .summary = "Model Context Protocol: there is no stream (405)"},
          [](Request&) -> Response {
            Refusal refusal(405, "there is no stream of events: send requests by POST");
            refusal.headers.add("Allow", "POST");
            throw refusal;
          });
}

}  // namespace kinema::serve
