#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kinema/io/json.h"

namespace kinema::serve {

/// A LoRA of the listing, and its weight.
struct LoraUse {
  std::string name;
  double scale = 1.0;
};

/// What a client asks to be made.
struct MakeRequest {
  std::string model;                            // a name of the listing
  io::Json settings = io::Json::object();       // keys that clients may set; others are refused
  std::map<std::string, std::string> inputs{};  // `image`, `mask`, ...: ids of uploads
  std::vector<LoraUse> loras{};
  int64_t count = 1;  // pictures or videos

  std::string prompt() const;
  int64_t seed() const;
};

/// Reads {model, settings, inputs, loras, count}; all but the model may be absent. Throws an
/// http::Refusal of status 422 that names the field for a wrong type, an unknown field, a name
/// with more than 200 characters, and a count below 1.
MakeRequest read_request(const io::Json& json);
io::Json to_json(const MakeRequest& request);

}  // namespace kinema::serve
