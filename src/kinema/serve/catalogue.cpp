#include "kinema/serve/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kinema/http/message.h"

namespace kinema::serve {
namespace {

constexpr int64_t kMaxSize = 8192;

io::Json optional_json(const std::optional<double>& number) {
  return number ? io::Json(*number) : io::Json();
}

io::Json texts(const std::vector<std::string>& list) {
  io::Json out = io::Json::array();
  for (const std::string& text : list) {
    out.append(text);
  }
  return out;
}

}  // namespace

io::Json to_json(const Key& key) {
  return io::Json::object({{"key", key.key},
                           {"group", key.group},
                           {"help", key.help},
                           {"type", key.type},
                           {"default", key.default_value},
                           {"min", optional_json(key.min)},
                           {"max", optional_json(key.max)},
                           {"multiple_of", key.multiple_of},
                           {"one_of", key.one_of.empty() ? io::Json() : texts(key.one_of)},
                           {"prose", key.prose},
                           {"with", key.with.empty() ? io::Json() : io::Json(key.with)}});
}

io::Json to_json(const Model& model, const std::string& loaded) {
  io::Json sizes = io::Json::array();
  for (const Model::Size& size : model.sizes) {
    sizes.append(io::Json::object({{"width", size.width},
                                   {"height", size.height},
                                   {"frames", size.frames},
                                   {"compiled", false}}));
  }
  return io::Json::object({{"name", model.name},
                           {"family", model.family},
                           {"kind", model.is_video ? "video" : "image"},
                           {"what", model.what},
                           {"bytes", model.bytes},
                           {"loaded", model.name == loaded},
                           {"defaults", model.defaults},
                           {"inputs", texts(model.inputs)},
                           {"sizes", std::move(sizes)},
                           {"multiple_of", model.multiple_of},
                           {"min_size", model.multiple_of},
                           {"max_size", kMaxSize},
                           {"frames_step", model.frames_step},
                           {"max_frames", model.is_video ? int64_t{1024} + 1 : int64_t{1}}});
}

io::Json to_json(const Lora& lora) {
  return io::Json::object({{"name", lora.name},
                           {"family", lora.family},
                           {"what", lora.what},
                           {"bytes", lora.bytes},
                           {"words", io::Json::array()},
                           {"switches", lora.switches}});
}

io::Json to_json(const DiskFile& file) {
  return io::Json::object(
      {{"name", file.name},
       {"folder", file.folder.string()},
       {"kind", file.kind},
       {"what", file.what},
       {"bytes", file.bytes},
       {"changed", file.changed},
       {"problem", file.problem.empty() ? io::Json() : io::Json(file.problem)}});
}

Model Catalogue::model(const std::string& name) {
  std::vector<std::string> names;
  for (Model& model : models()) {
    if (name.empty() || model.name == name) {
      return std::move(model);
    }
    names.push_back(model.name);
  }
  throw http::Refusal(
      404,
      fmt::format("there is no model `{}`, only {}", name,
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
      "model", "model_not_found");
}

}  // namespace kinema::serve
