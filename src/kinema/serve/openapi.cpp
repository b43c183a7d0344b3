// The OpenAPI 3.1 document, made from the table of routes and the table of schemas below.
#include <fmt/format.h>

#include <map>
#include <span>

#include "kinema/serve/api.h"

namespace kinema::serve {
namespace {

/// A field of a schema. Types: text, int, number, bool, any, map, NAME of a schema, TYPE[], and
/// TYPE? for what may be null.
struct FieldText {
  std::string_view name;
  std::string_view type;
  std::string_view about = "";
};
struct SchemaText {
  std::string_view name;
  std::vector<FieldText> fields;
  bool is_request = false;  // fields may be absent, others are refused
};

// clang-format off
const std::vector<SchemaText>& schemas() {
  static const std::vector<SchemaText> table = {
      {"Error", {{"message", "text", "for people"}, {"type", "text"}, {"param", "text?", "the field at fault"}, {"code", "text?"}}},
      {"Failure", {{"error", "Error"}}},
      {"Health", {{"ok", "bool"}}},
      {"Engine", {{"state", "text", "none, loading, ready, busy or ended"}, {"model", "text?"}, {"device", "text"}, {"message", "text?", "why nothing runs"}, {"bytes", "int?"}, {"bytes_limit", "int?"}}},
      {"Limits", {{"count", "int", "pictures of a request"}, {"queue", "int", "waiting jobs"}, {"upload_bytes", "int"}, {"downloads", "bool"}, {"training", "bool"}}},
      {"Size", {{"width", "int"}, {"height", "int"}, {"frames", "int"}, {"compiled", "bool"}}},
      {"Model", {{"name", "text"}, {"family", "text"}, {"kind", "text", "image or video"}, {"what", "text"}, {"bytes", "int"}, {"loaded", "bool"}, {"defaults", "map"}, {"inputs", "text[]"}, {"sizes", "Size[]", "the usual ones, best first"}, {"multiple_of", "int"}, {"min_size", "int"}, {"max_size", "int"}, {"frames_step", "int", "frames are 1 + k frames_step"}, {"max_frames", "int"}}},
      {"Lora", {{"name", "text"}, {"family", "text"}, {"what", "text"}, {"bytes", "int"}, {"words", "text[]"}, {"switches", "bool", "false: another weight loads the model again"}}},
      {"Models", {{"models", "Model[]"}, {"loras", "Lora[]"}}},
      {"Key", {{"key", "text"}, {"group", "text"}, {"help", "text"}, {"type", "text", "bool, int, float, text, list or map"}, {"default", "any"}, {"min", "number?"}, {"max", "number?"}, {"multiple_of", "int"}, {"one_of", "text[]?"}, {"prose", "bool"}, {"with", "text?", "KEY or KEY=VALUE without which it has no effect"}}},
      {"Keys", {{"keys", "Key[]"}}},
      {"LoraUse", {{"name", "text"}, {"scale", "number"}}},
      {"Request", {{"model", "text", "absent: the first"}, {"settings", "map", "KEY: value, keys of /api/keys; without a seed, a random one"}, {"inputs", "map", "image, last_image, mask, ...: ids of uploads"}, {"loras", "LoraUse[]"}, {"count", "int"}, {"client_key", "text?", "the same key never adds a second job"}}, true},
      {"Check", {{"ok", "bool"}, {"error", "Error?"}, {"notices", "text[]"}, {"seconds", "number?"}, {"bytes", "int?"}, {"bytes_limit", "int?"}}},
      {"MadeRequest", {{"model", "text"}, {"settings", "map"}, {"inputs", "map"}, {"loras", "LoraUse[]"}, {"count", "int"}}},
      {"Job", {{"id", "text"}, {"state", "text", "waiting, running, done, failed or cancelled"}, {"place", "number", "waiting jobs are made in this order"}, {"request", "MadeRequest"}, {"made", "number"}, {"started", "number?"}, {"ended", "number?"}, {"attempts", "int"}, {"phase", "text?", "loading, compiling, text, sampling, decoding or writing"}, {"step", "int"}, {"steps", "int"}, {"progress", "number", "0 to 1"}, {"seconds_left", "number?"}, {"preview", "text?"}, {"outputs", "Output[]"}, {"notices", "text[]"}, {"error", "Error?"}}},
      {"Jobs", {{"jobs", "Job[]"}, {"next", "text?"}}},
      {"Move", {{"before", "text?", "the id of a job that waits"}}, true},
      {"Paused", {{"paused", "bool"}}},
      {"Removed", {{"removed", "bool"}}},
      {"RemovedCount", {{"removed", "int"}}},
      {"Upload", {{"id", "text", "the SHA-256 of its bytes"}, {"url", "text"}, {"type", "text"}, {"width", "int"}, {"height", "int"}, {"frames", "int"}}},
      {"FoundSettings", {{"request", "MadeRequest"}, {"left_out", "text[]"}}},
      {"Output", {{"id", "text"}, {"job", "text?"}, {"kind", "text", "image or video"}, {"type", "text"}, {"url", "text"}, {"thumb", "text"}, {"width", "int"}, {"height", "int"}, {"frames", "int"}, {"seconds", "number"}, {"bytes", "int"}, {"model", "text"}, {"prompt", "text"}, {"seed", "int"}, {"index", "int"}, {"starred", "bool"}, {"deleted", "number?", "when it was put into the bin"}, {"made", "number"}}},
      {"File", {{"name", "text"}, {"url", "text"}, {"bytes", "int"}}},
      {"OutputDetails", {{"id", "text"}, {"job", "text?"}, {"kind", "text"}, {"type", "text"}, {"url", "text"}, {"thumb", "text"}, {"width", "int"}, {"height", "int"}, {"frames", "int"}, {"seconds", "number"}, {"bytes", "int"}, {"model", "text"}, {"prompt", "text"}, {"seed", "int"}, {"index", "int"}, {"starred", "bool"}, {"deleted", "number?"}, {"made", "number"}, {"request", "MadeRequest"}, {"files", "File[]"}}},
      {"Outputs", {{"total", "int"}, {"outputs", "Output[]"}}},
      {"Star", {{"starred", "bool"}}},
      {"OpenAiImageRequest", {{"prompt", "text"}, {"model", "text?"}, {"n", "int?"}, {"size", "text?", "WIDTHxHEIGHT or auto"}, {"response_format", "text?", "b64_json or url"}, {"stream", "bool?"}, {"seed", "int?"}, {"kinema", "map?", "more keys"}}},
      {"OpenAiImages", {{"created", "int"}, {"data", "map[]", "b64_json or url"}, {"output_format", "text"}, {"size", "text"}, {"usage", "map"}}},
      {"OpenAiModels", {{"object", "text"}, {"data", "map[]"}}},
      {"OpenAiVideo", {{"id", "text"}, {"object", "text"}, {"model", "text"}, {"status", "text", "queued, in_progress, completed or failed"}, {"progress", "int", "0 to 100"}, {"created_at", "int"}, {"completed_at", "int?"}, {"expires_at", "int?"}, {"prompt", "text"}, {"size", "text"}, {"seconds", "text"}, {"remixed_from_video_id", "text?"}, {"error", "map?"}}},
      {"OpenAiVideos", {{"object", "text"}, {"data", "OpenAiVideo[]"}, {"first_id", "text?"}, {"last_id", "text?"}, {"has_more", "bool"}}},
      {"OpenAiDeleted", {{"id", "text"}, {"object", "text"}, {"deleted", "bool"}}},
      {"Space", {{"outputs", "int"}, {"bin", "int"}, {"uploads", "int"}, {"runs", "int"}, {"models", "int"}, {"free", "int"}, {"total", "int", "of the disk with serve_folder"}}},
      {"DiskFile", {{"name", "text"}, {"folder", "text"}, {"kind", "text", "model, lora, text encoder, autoencoder, embedding or other"}, {"what", "text"}, {"bytes", "int"}, {"changed", "number"}, {"problem", "text?", "why nothing can use it"}}},
      {"Disk", {{"files", "DiskFile[]"}, {"space", "Space"}}},
      {"DownloadRequest", {{"source", "text", "owner/name"}}},
      {"Download", {{"id", "text"}, {"source", "text"}, {"state", "text", "running, done, failed or cancelled"}, {"bytes", "int"}, {"total", "int?"}, {"error", "Error?"}}},
      {"Downloads", {{"downloads", "Download[]"}}},
      {"Device", {{"name", "text"}, {"what", "text"}, {"bytes", "int", "of memory"}, {"compiler", "bool", "false: it must be installed first"}}},
      {"DeviceHere", {{"name", "text"}, {"platform", "text"}, {"count", "int"}, {"bytes", "int?"}, {"bytes_limit", "int?"}}},
      {"Devices", {{"devices", "Device[]"}, {"here", "DeviceHere[]"}}},
      {"PlanRequest", {{"device", "text"}, {"run", "RunRequest"}, {"job", "Request"}}, true},
      {"Plan", {{"id", "text"}, {"device", "text"}, {"state", "text", "running, done, failed or cancelled"}, {"fits", "bool?"}, {"bytes", "int?"}, {"bytes_limit", "int?"}, {"step_seconds", "number?"}, {"bound_by", "text?"}, {"remedy", "text?"}, {"lines", "text[]"}, {"error", "Error?"}}},
      {"Dataset", {{"name", "text"}, {"what", "text"}, {"clips", "int"}, {"bytes", "int"}, {"editable", "bool"}}},
      {"Datasets", {{"datasets", "Dataset[]"}}},
      {"Clip", {{"id", "text"}, {"file", "text"}, {"kind", "text", "image or video"}, {"thumb", "text"}, {"url", "text"}, {"width", "int"}, {"height", "int"}, {"frames", "int"}, {"seconds", "number"}, {"caption", "text"}, {"problem", "text?"}}},
      {"Clips", {{"total", "int"}, {"problems", "text[]"}, {"clips", "Clip[]"}}},
      {"Caption", {{"caption", "text"}, {"was", "text", "the caption that it replaces"}}},
      {"Bases", {{"bases", "map[]", "name and help"}}},
      {"RunRequest", {{"name", "text?", "of /api/runs only"}, {"start", "bool?", "of /api/runs only"}, {"base", "text"}, {"dataset", "text?"}, {"settings", "map?", "KEY: value"}, {"yaml", "text?", "keys as in a configuration file; settings win"}}, true},
      {"RunName", {{"name", "text"}}},
      {"RunCheck", {{"ok", "bool"}, {"error", "Error?"}, {"notices", "text[]"}, {"config", "text", "YAML"}}},
      {"Run", {{"name", "text"}, {"state", "text", "created, starting, running, stopping, stopped, done or failed"}, {"step", "int"}, {"steps", "int"}, {"epoch", "number?"}, {"loss", "number?"}, {"recent_loss", "number?"}, {"learning_rate", "number?"}, {"step_seconds", "number?"}, {"planned_step_seconds", "number?"}, {"bytes", "int?"}, {"planned_bytes", "int?"}, {"bytes_limit", "int?"}, {"seconds_left", "number?"}, {"started", "number?"}, {"changed", "number"}, {"checkpoints", "int[]"}, {"error", "Error?"}}},
      {"Runs", {{"runs", "Run[]"}}},
      {"RunDetails", {{"name", "text"}, {"state", "text"}, {"step", "int"}, {"steps", "int"}, {"epoch", "number?"}, {"loss", "number?"}, {"recent_loss", "number?"}, {"learning_rate", "number?"}, {"step_seconds", "number?"}, {"planned_step_seconds", "number?"}, {"bytes", "int?"}, {"planned_bytes", "int?"}, {"bytes_limit", "int?"}, {"seconds_left", "number?"}, {"started", "number?"}, {"changed", "number"}, {"checkpoints", "int[]"}, {"error", "Error?"}, {"config", "text", "YAML"}, {"plan", "map?"}}},
      {"Metrics", {{"step", "int[]", "the last of each bucket"}, {"loss", "number?[]"}, {"low", "number?[]"}, {"high", "number?[]"}, {"learning_rate", "number?[]"}, {"seconds", "number?[]"}, {"gradient_norm", "number?[]"}, {"evaluations", "map[]"}}},
      {"Sample", {{"step", "int"}, {"index", "int"}, {"prompt", "text"}, {"kind", "text"}, {"url", "text"}, {"thumb", "text"}, {"width", "int"}, {"height", "int"}, {"frames", "int"}}},
      {"Samples", {{"samples", "Sample[]"}}},
      {"Log", {{"text", "text"}, {"next", "int", "the next byte"}}},
      {"State", {{"version", "text"}, {"event", "int", "the number of the last event"}, {"paused", "bool"}, {"engine", "Engine"}, {"limits", "Limits"}, {"models", "Model[]"}, {"loras", "Lora[]"}, {"jobs", "Job[]", "running and waiting ones, then the last 50 others"}, {"runs", "Run[]"}}},
  };
  return table;
}
// clang-format on

io::Json type_schema(std::string_view type) {
  if (type.ends_with('?')) {
    return io::Json::object(
        {{"anyOf", io::Json::array({type_schema(type.substr(0, type.size() - 1)),
                                    io::Json::object({{"type", "null"}})})}});
  }
  if (type.ends_with("[]")) {
    return io::Json::object(
        {{"type", "array"}, {"items", type_schema(type.substr(0, type.size() - 2))}});
  }
  static const std::map<std::string_view, const char*> plain{{"text", "string"},
                                                             {"int", "integer"},
                                                             {"number", "number"},
                                                             {"bool", "boolean"},
                                                             {"map", "object"}};
  if (const auto found = plain.find(type); found != plain.end()) {
    return io::Json::object({{"type", found->second}});
  }
  if (type == "any") {
    return io::Json::object();
  }
  return io::Json::object({{"$ref", fmt::format("#/components/schemas/{}", type)}});
}

io::Json schema_json(const SchemaText& schema) {
  io::Json properties = io::Json::object();
  io::Json required = io::Json::array();
  for (const FieldText& field : schema.fields) {
    io::Json property = type_schema(field.type);
    if (!field.about.empty()) {
      property.set("description", field.about);
    }
    properties.set(field.name, std::move(property));
    required.append(field.name);
  }
  io::Json out = io::Json::object({{"type", "object"}, {"properties", std::move(properties)}});
  if (schema.is_request) {
    out.set("additionalProperties", false);
  } else {
    out.set("required", std::move(required));
  }
  return out;
}

io::Json json_content(const std::string& schema) {
  return io::Json::object(
      {{"application/json", io::Json::object({{"schema", type_schema(schema)}})}});
}

/// The names in braces of a pattern.
std::vector<std::string> names_in(const std::string& pattern) {
  std::vector<std::string> out;
  for (size_t at = pattern.find('{'); at != std::string::npos; at = pattern.find('{', at + 1)) {
    out.push_back(pattern.substr(at + 1, pattern.find('}', at) - at - 1));
  }
  return out;
}

io::Json operation(const Endpoint& endpoint) {
  io::Json parameters = io::Json::array();
  for (const std::string& name : names_in(endpoint.pattern)) {
    parameters.append(io::Json::object(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", type_schema("text")}}));
  }
  for (const Endpoint::Argument& each : endpoint.query) {
    parameters.append(io::Json::object({{"name", each.name},
                                        {"in", "query"},
                                        {"description", each.about},
                                        {"schema", type_schema(each.type)}}));
  }
  io::Json success = io::Json::object({{"description", endpoint.summary}});
  if (!endpoint.answer.empty()) {
    success.set("content", json_content(endpoint.answer));
  }
  io::Json failure =
      io::Json::object({{"description", "refused"}, {"content", json_content("Failure")}});
  io::Json out = io::Json::object({{"summary", endpoint.summary}});
  out.set("parameters", std::move(parameters));
  if (!endpoint.body.empty()) {
    out.set("requestBody", io::Json::object({{"content", json_content(endpoint.body)}}));
  }
  out.set("responses", io::Json::object({{std::to_string(endpoint.status), std::move(success)},
                                         {"default", std::move(failure)}}));
  if (endpoint.access == http::Access::OPEN) {
    out.set("security", io::Json::array());
  }
  return out;
}

}  // namespace

io::Json Api::openapi(const std::string& version) const {
  io::Json paths = io::Json::object();
  for (const Endpoint& endpoint : endpoints_) {
    std::string method = endpoint.method;
    for (char& c : method) {
      c = static_cast<char>(c - 'A' + 'a');
    }
    io::Json path = io::Json::object();
    if (const io::Json* known = paths.find(endpoint.pattern)) {
      path = *known;
    }
    path.set(method, operation(endpoint));
    paths.set(endpoint.pattern, std::move(path));
  }
  io::Json components = io::Json::object();
  for (const SchemaText& schema : schemas()) {
    components.set(schema.name, schema_json(schema));
  }
  const io::Json bearer = io::Json::object({{"type", "http"}, {"scheme", "bearer"}});
  return io::Json::object(
      {{"openapi", "3.1.0"},
       {"info", io::Json::object({{"title", "kinema serve"}, {"version", version}})},
       {"paths", std::move(paths)},
       {"components",
        io::Json::object({{"schemas", std::move(components)},
                          {"securitySchemes", io::Json::object({{"token", bearer}})}})},
       {"security", io::Json::array({io::Json::object({{"token", io::Json::array()}})})}});
}

}  // namespace kinema::serve
