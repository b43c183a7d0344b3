#include "kinema/world/tcp_hello.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace kinema::world {
namespace {

using nlohmann::json;

constexpr int kProtocol = 2;

std::optional<json> parsed(std::string_view line) {
  json out = json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool ours = out.is_object() && out.contains("kinema") && out["kinema"] == json(kProtocol);
  return ours ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<std::string> text_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? std::optional(found->get<std::string>())
                                                     : std::nullopt;
}

/// A rank or a number of processes.
std::optional<int64_t> number_at(const json& object, const char* name) {
  constexpr uint64_t kMost = 1 << 20;
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() && found->get<uint64_t>() <= kMost
             ? std::optional(found->get<int64_t>())
             : std::nullopt;
}

std::string line_of(const json& object) {
  // Bytes that are not UTF-8 in an error's text must not prevent sending it.
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string line_of(const Hello& hello) {
  return line_of(json{{"kinema", kProtocol},
                      {"rank", static_cast<uint64_t>(hello.rank)},
                      {"size", static_cast<uint64_t>(hello.size)},
                      {"address", hello.address},
                      {"token", hello.token}});
}

std::string line_of(const Answer& answer) {
  return answer.error.empty() ? line_of(json{{"kinema", kProtocol},
                                             {"secret", answer.met.secret},
                                             {"addresses", answer.met.addresses}})
                              : line_of(json{{"kinema", kProtocol}, {"error", answer.error}});
}

std::optional<Hello> parse_hello(std::string_view line) {
  if (line.size() > Hello::kMostBytes) {
    return std::nullopt;
  }
  const std::optional<json> said = parsed(line);
  if (!said) {
    return std::nullopt;
  }
  const std::optional<int64_t> rank = number_at(*said, "rank");
  const std::optional<int64_t> size = number_at(*said, "size");
  const std::optional<std::string> address = text_at(*said, "address");
  const std::optional<std::string> token = text_at(*said, "token");
  if (!rank || !size || !address || !token) {
    return std::nullopt;
  }
  return Hello{.rank = *rank, .size = *size, .address = *address, .token = *token};
}

std::optional<Answer> parse_answer(std::string_view line) {
  if (line.size() > Answer::kMostBytes) {
    return std::nullopt;
  }
  const std::optional<json> said = parsed(line);
  if (!said) {
    return std::nullopt;
  }
  if (const std::optional<std::string> error = text_at(*said, "error"); error && !error->empty()) {
    return Answer{.met = {}, .error = *error};
  }
  const std::optional<std::string> secret = text_at(*said, "secret");
  const auto addresses = said->find("addresses");
  if (!secret || addresses == said->end() || !addresses->is_array()) {
    return std::nullopt;
  }
  Answer out{.met = {.secret = *secret, .addresses = {}}, .error = {}};
  for (const json& each : *addresses) {
    if (!each.is_string()) {
      return std::nullopt;
    }
    out.met.addresses.push_back(each.get<std::string>());
  }
  return out;
}

}  // namespace kinema::world
