#include "kinema/verification/limits.h"

#include "kinema/core/error.h"

namespace kinema::verification {
namespace {

double number_or(const io::Json& limit, const char* key, double otherwise) {
  const io::Json* found = limit.find(key);
  return found == nullptr ? otherwise : found->as_number();
}

Limit read(const io::Json& json) {
  Limit out{.absolute = number_or(json, "absolute", 0.0),
            .relative = number_or(json, "relative", 0.0),
            .of_largest = number_or(json, "of_largest", 0.0)};
  for (const auto& [key, value] :
       {std::pair{"rms", &out.rms}, std::pair{"rms_of_rms", &out.rms_of_rms}}) {
    if (json.contains(key)) {
      *value = json.at(key).as_number();
    }
  }
  return out;
}

/// Whether the name is the pattern's pieces between stars, in order.
bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return pattern == name;
  }
  if (!name.starts_with(pattern.substr(0, star))) {
    return false;
  }
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= name.size(); ++at) {
    if (matches(rest, name.substr(at))) {
      return true;
    }
  }
  return false;
}

}  // namespace

Limits::Limits(const io::Json& about, Which which) : which_(which) {
  for (const auto& [pattern, limit] : about.at("limits").members()) {
    if (!pattern.ends_with(" away from plain")) {  // of distances, read by their case
      limits_.emplace_back(pattern, read(limit));
    }
  }
}

Limit Limits::of(const std::string& tensor) const {
  const std::pair<std::string, Limit>* found = nullptr;
  for (const auto& known : limits_) {
    const bool counts =
        found == nullptr || (which_ == Which::LONGEST && known.first.size() > found->first.size());
    if (counts && matches(known.first, tensor)) {
      found = &known;
    }
  }
  if (found != nullptr) {
    return found->second;
  }
  fail("[verify] the case states no limit for {}", tensor);
}

}  // namespace kinema::verification
