#include "kinema/http/json_body.h"

#include "kinema/core/error.h"

namespace kinema::http {

bool is_nested_deeper(std::string_view json, int depth) {
  int level = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++level > depth) {
        return true;
      }
    } else if (c == ']' || c == '}') {
      --level;
    }
  }
  return false;
}

io::Json json_body(const Request& request) {
  constexpr int kDepth = 32;
  if (request.body.empty()) {
    return io::Json::object();
  }
  if (is_nested_deeper(request.body, kDepth)) {
    throw Refusal(400, fmt::format("the JSON has more than {} levels", kDepth));
  }
  try {
    io::Json out = io::Json::parse(request.body, "the request");
    if (out.is_object()) {
      return out;
    }
    throw Refusal(400, "the request is " + out.describe() + ", expected a JSON object");
  } catch (const Error& error) {
    throw Refusal(400, error.what());
  }
}

}  // namespace kinema::http
