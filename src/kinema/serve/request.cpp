#include "kinema/serve/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/http/message.h"

namespace kinema::serve {
namespace {

using http::Refusal;

constexpr size_t kMaxName = 200;
constexpr size_t kMaxLoras = 16;

/// Runs `read` on a member and turns its Error into a Refusal that names the member.
template <typename Read>
void read_member(const io::Json& json, const char* name, const Read& read) {
  const io::Json* member = json.find(name);
  if (member == nullptr) {
    return;
  }
  try {
    read(*member);
  } catch (const Error& error) {
    throw Refusal(422, error.what(), name);
  }
}

std::string short_name(const io::Json& json) {
  const std::string& out = json.as_string();
  check(out.size() <= kMaxName, "[serve] a name has {} characters, at most {} are taken",
        out.size(), kMaxName);
  return out;
}

LoraUse read_lora(const io::Json& json) {
  LoraUse out{.name = short_name(json.at("name"))};
  if (const io::Json* scale = json.find("scale")) {
    out.scale = scale->as_number();
  }
  return out;
}

}  // namespace

std::string MakeRequest::prompt() const {
  const io::Json* prompt = settings.find("prompt");
  return prompt != nullptr && prompt->is_string() ? prompt->as_string() : "";
}

int64_t MakeRequest::seed() const {
  const io::Json* seed = settings.find("seed");
  return seed != nullptr && seed->kind() == io::Json::Kind::Integer ? seed->as_int() : 0;
}

MakeRequest read_request(const io::Json& json) {
  static constexpr std::array<std::string_view, 6> kFields{"model", "settings", "inputs",
                                                           "loras", "count",    "client_key"};
  for (const auto& [name, value] : json.members()) {
    if (std::ranges::find(kFields, name) == kFields.end()) {
      throw Refusal(422, fmt::format("there is no field `{}`", name), name);
    }
  }
  MakeRequest out;
  read_member(json, "model", [&](const io::Json& model) { out.model = short_name(model); });
  read_member(json, "settings", [&](const io::Json& settings) {
    check(settings.is_object(), "[serve] `settings` is {}, expected an object",
          settings.describe());
    out.settings = settings;
  });
  read_member(json, "inputs", [&](const io::Json& inputs) {
    for (const auto& [name, id] : inputs.members()) {
      if (!id.is_null()) {
        out.inputs.emplace(name, short_name(id));
      }
    }
  });
  read_member(json, "loras", [&](const io::Json& loras) {
    check(loras.items().size() <= kMaxLoras, "[serve] {} LoRAs are given, at most {} are taken",
          loras.items().size(), kMaxLoras);
    for (const io::Json& lora : loras.items()) {
      out.loras.push_back(read_lora(lora));
    }
  });
  read_member(json, "count", [&](const io::Json& count) {
    out.count = count.as_int();
    check(out.count >= 1, "[serve] `count` is {}, expected at least 1", out.count);
  });
  return out;
}

io::Json to_json(const MakeRequest& request) {
  io::Json inputs = io::Json::object();
  for (const auto& [name, id] : request.inputs) {
    inputs.set(name, id);
  }
  io::Json loras = io::Json::array();
  for (const LoraUse& lora : request.loras) {
    loras.append(io::Json::object({{"name", lora.name}, {"scale", lora.scale}}));
  }
  return io::Json::object({{"model", request.model},
                           {"settings", request.settings},
                           {"inputs", std::move(inputs)},
                           {"loras", std::move(loras)},
                           {"count", request.count}});
}

}  // namespace kinema::serve
