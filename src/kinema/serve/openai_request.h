#pragma once

// Private to the module: requests of OpenAI's clients, as JSON or as forms.

#include <map>
#include <string>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/serve/api.h"

namespace kinema::serve {

/// The fields of a request, with the uploads of its files.
struct OpenAiFields {
  io::Json json = io::Json::object();
  std::map<std::string, std::string> inputs{};  // `image`, `mask`: ids of uploads
};

/// Reads a form, and stores its pictures: `image`, `image[]`, `input_reference` and `mask`.
OpenAiFields read_openai_form(Context& context, const std::string& content_type,
                              std::string_view body);

/// Prompt, model, size, seed and the keys in `kinema`. A model that is absent or one of OpenAI's
/// own names is the first. Throws a Refusal in OpenAI's words.
MakeRequest openai_request(Context& context, const OpenAiFields& fields);

}  // namespace kinema::serve
