#include "kinema/world/handshake_messages.h"

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

std::string to_line(const json& object) {
  // Bytes that are not UTF-8 in an error's text must not prevent sending it.
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string to_line(const HandshakeRequest& request) {
  return to_line(json{{"kinema", kProtocol},
                      {"rank", static_cast<uint64_t>(request.rank)},
                      {"size", static_cast<uint64_t>(request.size)},
                      {"address", request.address},
                      {"token", request.token}});
}

std::string to_line(const HandshakeReply& reply) {
  return reply.error.empty() ? to_line(json{{"kinema", kProtocol},
                                            {"secret", reply.result.secret},
                                            {"addresses", reply.result.addresses}})
                             : to_line(json{{"kinema", kProtocol}, {"error", reply.error}});
}

std::optional<HandshakeRequest> parse_request(std::string_view line) {
  if (line.size() > HandshakeRequest::kMostBytes) {
    return std::nullopt;
  }
  const std::optional<json> received = parsed(line);
  if (!received) {
    return std::nullopt;
  }
  const std::optional<int64_t> rank = number_at(*received, "rank");
  const std::optional<int64_t> size = number_at(*received, "size");
  const std::optional<std::string> address = text_at(*received, "address");
  const std::optional<std::string> token = text_at(*received, "token");
  if (!rank || !size || !address || !token) {
    return std::nullopt;
  }
  return HandshakeRequest{.rank = *rank, .size = *size, .address = *address, .token = *token};
}

std::optional<HandshakeReply> parse_reply(std::string_view line) {
  if (line.size() > HandshakeReply::kMostBytes) {
    return std::nullopt;
  }
  const std::optional<json> received = parsed(line);
  if (!received) {
    return std::nullopt;
  }
  if (const std::optional<std::string> error = text_at(*received, "error");
      error && !error->empty()) {
    return HandshakeReply{.result = {}, .error = *error};
  }
  const std::optional<std::string> secret = text_at(*received, "secret");
  const auto addresses = received->find("addresses");
  if (!secret || addresses == received->end() || !addresses->is_array()) {
    return std::nullopt;
  }
  HandshakeReply out{.result = {.secret = *secret, .addresses = {}}, .error = {}};
  for (const json& each : *addresses) {
    if (!each.is_string()) {
      return std::nullopt;
    }
    out.result.addresses.push_back(each.get<std::string>());
  }
  return out;
}

}  // namespace kinema::world
