#include "kinema/serve/openai_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/http/multipart.h"
#include "kinema/serve/foreign.h"
#include "kinema/serve/uploads.h"

namespace kinema::serve {
namespace {

using http::Refusal;

bool is_name_of_openai(const std::string& model) {
  return model.empty() || model.starts_with("dall-e") || model.starts_with("gpt-image") ||
         model.starts_with("sora");
}

}  // namespace

OpenAiFields read_openai_form(Context& context, const std::string& content_type,
                              std::string_view body) {
  OpenAiFields out;
  std::vector<http::FormPart> parts;
  try {
    parts = http::read_multipart(content_type, body);
  } catch (const Error& error) {
    throw Refusal(400, error.what());
  }
  for (const http::FormPart& part : parts) {
    const bool is_image =
        part.name == "image" || part.name == "image[]" || part.name == "input_reference";
    if (is_image || part.name == "mask") {
      const std::string input = is_image ? "image" : "mask";
      if (out.inputs.contains(input)) {
        throw Refusal(400, "only one picture can be changed", part.name);
      }
      out.inputs.emplace(input, store_upload(context.store, context.looks, part.content).id);
    } else if (!out.json.contains(part.name)) {
      const std::string value(part.content);
      out.json.set(part.name, value == "true"    ? io::Json(true)
                              : value == "false" ? io::Json(false)
                                                 : io::Json(value));
    }
  }
  return out;
}

MakeRequest openai_request(Context& context, const OpenAiFields& fields) {
  constexpr size_t kMaxPrompt = 32'000;
  const io::Json& json = fields.json;
  const std::string name = text_member(json, "model");
  MakeRequest out{.model = is_name_of_openai(name) ? "" : name, .inputs = fields.inputs};
  const Model model = context.catalogue.model(out.model);
  out.model = model.name;
  const std::string prompt = text_member(json, "prompt");
  if (prompt.empty() || prompt.size() > kMaxPrompt) {
    throw Refusal(400,
                  fmt::format("`prompt` has {} bytes, expected 1 to {}", prompt.size(), kMaxPrompt),
                  "prompt");
  }
  if (const io::Json* own = json.find("kinema"); own != nullptr && own->is_object()) {
    out.settings = *own;
  }
  out.settings.set("prompt", prompt);
  set_size(text_member(json, "size"), out.settings);
  if (const io::Json* seed = json.find("seed"); seed != nullptr && !seed->is_null()) {
    out.settings.set("seed", integer_member(json, "seed", 0));
  }
  for (const auto& [input, id] : out.inputs) {
    if (std::ranges::find(model.inputs, input) == model.inputs.end()) {
      throw Refusal(400, fmt::format("the model {} takes no {}", model.name, input), input);
    }
  }
  return out;
}

}  // namespace kinema::serve
