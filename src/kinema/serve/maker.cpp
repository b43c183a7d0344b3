#include "kinema/serve/maker.h"

namespace kinema::serve {

io::Json to_json(const MakeSettings& settings) {
  io::Json arguments = io::Json::array();
  for (const std::string& argument : settings.arguments) {
    arguments.append(argument);
  }
  io::Json inputs = io::Json::object();
  for (const auto& [name, path] : settings.inputs) {
    inputs.set(name, path.string());
  }
  io::Json loras = io::Json::array();
  for (const auto& [path, scale] : settings.loras) {
    loras.append(io::Json::object({{"path", path.string()}, {"scale", scale}}));
  }
  return io::Json::object({{"model", settings.model},
                           {"arguments", std::move(arguments)},
                           {"settings", settings.settings},
                           {"inputs", std::move(inputs)},
                           {"loras", std::move(loras)},
                           {"count", settings.count},
                           {"folder", settings.folder.string()}});
}

MakeSettings read_make_settings(const io::Json& json) {
  MakeSettings out{.model = json.at("model").as_string(),
                   .settings = json.at("settings"),
                   .count = json.at("count").as_int(),
                   .folder = json.at("folder").as_string()};
  for (const io::Json& argument : json.at("arguments").items()) {
    out.arguments.push_back(argument.as_string());
  }
  for (const auto& [name, path] : json.at("inputs").members()) {
    out.inputs.emplace(name, path.as_string());
  }
  for (const io::Json& lora : json.at("loras").items()) {
    out.loras.emplace_back(lora.at("path").as_string(), lora.at("scale").as_number());
  }
  return out;
}

io::Json to_json(const Made& made) {
  io::Json files = io::Json::array();
  for (const MadeFile& file : made.files) {
    files.append(io::Json::object({{"path", file.path.string()},
                                   {"thumb", file.thumb.string()},
                                   {"is_video", file.is_video},
                                   {"width", file.width},
                                   {"height", file.height},
                                   {"frames", file.frames},
                                   {"fps", file.fps},
                                   {"index", file.index}}));
  }
  const MadeTimes& times = made.times;
  const EngineDevice& device = made.device;
  return io::Json::object({{"files", std::move(files)},
                           {"times", io::Json::object({{"setup", times.setup},
                                                       {"steps", times.steps},
                                                       {"others", times.others},
                                                       {"count", times.count}})},
                           {"device", io::Json::object({{"name", device.name},
                                                        {"platform", device.platform},
                                                        {"count", device.count},
                                                        {"bytes", device.bytes},
                                                        {"limit", device.limit}})}});
}

Made read_made(const io::Json& json) {
  const io::Json& times = json.at("times");
  const io::Json& device = json.at("device");
  Made out{.times = {.setup = times.at("setup").as_number(),
                     .steps = times.at("steps").as_number(),
                     .others = times.at("others").as_number(),
                     .count = times.at("count").as_int()},
           .device = {.name = device.at("name").as_string(),
                      .platform = device.at("platform").as_string(),
                      .count = device.at("count").as_int(),
                      .bytes = device.at("bytes").as_int(),
                      .limit = device.at("limit").as_int()}};
  for (const io::Json& file : json.at("files").items()) {
    out.files.push_back({.path = file.at("path").as_string(),
                         .thumb = file.at("thumb").as_string(),
                         .is_video = file.at("is_video").as_bool(),
                         .width = file.at("width").as_int(),
                         .height = file.at("height").as_int(),
                         .frames = file.at("frames").as_int(),
                         .fps = file.at("fps").as_number(),
                         .index = file.at("index").as_int()});
  }
  return out;
}

}  // namespace kinema::serve
