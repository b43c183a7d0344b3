#pragma once

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>

#include "http/client.h"
#include "io/scratch.h"
#include "kinema/io/json.h"
#include "kinema/serve/front.h"
#include "serve/fixture.h"

namespace kinema::serve_test {

/// A port that was free a moment ago.
inline uint16_t free_port() {
  const io::Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

/// Fails the test unless a value has the type that its schema says.
inline void expect_schema(const io::Json& document, const io::Json& schema, const io::Json& value,
                          const std::string& where) {
  if (const io::Json* ref = schema.find("$ref")) {
    const std::string name = ref->as_string().substr(ref->as_string().rfind('/') + 1);
    return expect_schema(document, document.at("components").at("schemas").at(name), value, where);
  }
  if (const io::Json* any = schema.find("anyOf")) {
    if (!value.is_null()) {
      expect_schema(document, any->items()[0], value, where);
    }
    return;
  }
  const io::Json* type = schema.find("type");
  if (type == nullptr) {
    return;
  }
  using Kind = io::Json::Kind;
  const std::string& name = type->as_string();
  const bool fits = name == "string"    ? value.is_string()
                    : name == "boolean" ? value.kind() == Kind::Bool
                    : name == "integer" ? value.kind() == Kind::Integer
                    : name == "number"
                        ? value.kind() == Kind::Integer || value.kind() == Kind::Number
                    : name == "array" ? value.is_array()
                                      : value.is_object();
  EXPECT_TRUE(fits) << where << " is " << value.describe() << ", not " << name;
  if (!fits) {
    return;
  }
  if (name == "array") {
    for (const io::Json& item : value.items()) {
      expect_schema(document, schema.at("items"), item, where + "[]");
    }
  }
  const io::Json* properties = schema.find("properties");
  if (properties == nullptr) {
    return;
  }
  for (const auto& [field, of] : properties->members()) {
    const io::Json* member = value.find(field);
    EXPECT_NE(member, nullptr) << where << " has no " << field;
    if (member != nullptr) {
      expect_schema(document, of, *member, where + "." + field);
    }
  }
  for (const auto& [field, member] : value.members()) {
    EXPECT_TRUE(properties->contains(field)) << where << "." << field << " is not documented";
  }
}

/// A test with a running server in front of a fake engine. What it answers to `get`, `post` and
/// `send` must have the documented status and form.
class FrontTest : public ::testing::Test {
 protected:
  void start(const std::function<void(serve::FrontOptions&)>& change = {}) {
    serve::FrontOptions options{.folder = folder_ / "data", .token = "a-token-for-tests"};
    options.server.port = free_port();
    options.queue.engine = {fake_engine()};
    options.queue.free_bytes = 0;
    options.queue.restart_time = std::chrono::milliseconds(1);
    options.upload_bytes = 2 << 20;
    options.version = "test";
    if (change) {
      change(options);
    }
    front_.reset();
    front_ = std::make_unique<serve::Front>(options, catalogue_);
    port_ = options.server.port;
    document_ = json_of(ask("GET", "/api/openapi.json"), 200, /*checks=*/false);
  }
  uint16_t port() const { return port_; }

  std::string head(const std::string& method, const std::string& target) const {
    return fmt::format(
        "{} {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer a-token-for-tests\r\n",
        method, target, port_);
  }
  /// The whole answer.
  std::string ask(const std::string& method, const std::string& target,
                  const std::string& body = "",
                  const std::string& fields = "Content-Type: application/json\r\n") {
    last_ = {method, target.substr(0, target.find('?'))};
    http_test::Client client(port_);
    client.send(head(method, target) + fields +
                (body.empty() ? "" : fmt::format("Content-Length: {}\r\n", body.size())) + "\r\n" +
                body);
    return client.read_answer();
  }
  static std::string body_of(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }
  io::Json json_of(const std::string& answer, int status, bool checks = true) {
    EXPECT_TRUE(answer.starts_with(fmt::format("HTTP/1.1 {} ", status)))
        << last_.first << " " << last_.second << ": " << answer;
    io::Json out = io::Json::parse(body_of(answer), "the answer");
    if (checks) {
      expect_documented(out, status);
    }
    return out;
  }
  io::Json get(const std::string& target, int status = 200) {
    return json_of(ask("GET", target), status);
  }
  io::Json post(const std::string& target, const std::string& body, int status = 200) {
    return json_of(ask("POST", target, body), status);
  }
  io::Json send(const std::string& method, const std::string& target, const std::string& body,
                int status = 200) {
    return json_of(ask(method, target, body), status);
  }
  std::string add(const std::string& prompt) {
    return post("/api/jobs", "{\"settings\":{\"prompt\":\"" + prompt + "\"}}", 201)
        .at("id")
        .as_string();
  }
  io::Json wait_for(const io::Json& job) {
    return get("/api/jobs/" + job.at("id").as_string() + "?wait=30");
  }
  static std::string read(const std::filesystem::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  io::Scratch folder_;
  FakeCatalogue catalogue_;
  std::unique_ptr<serve::Front> front_;

 private:
  /// The documented operation of the last request, or null.
  const io::Json* operation() const {
    for (const auto& [pattern, operations] : document_.at("paths").members()) {
      std::string method = last_.first;
      for (char& c : method) {
        c = static_cast<char>(std::tolower(c));
      }
      if (fits(pattern, last_.second) && operations.contains(method)) {
        return operations.find(method);
      }
    }
    return nullptr;
  }
  static bool fits(const std::string& pattern, const std::string& path) {
    std::istringstream a(pattern);
    std::istringstream b(path);
    std::string x;
    std::string y;
    while (true) {
      const bool has_a = static_cast<bool>(std::getline(a, x, '/'));
      const bool has_b = static_cast<bool>(std::getline(b, y, '/'));
      if (has_a != has_b) {
        return false;
      }
      if (!has_a) {
        return true;
      }
      if (x != y && !x.starts_with('{')) {
        return false;
      }
    }
  }
  void expect_documented(const io::Json& value, int status) const {
    const std::string where = last_.first + " " + last_.second;
    const io::Json* found = operation();
    if (status >= 400) {
      return expect_schema(document_, document_.at("components").at("schemas").at("Failure"), value,
                           where);
    }
    ASSERT_NE(found, nullptr) << where;
    const io::Json& success = found->at("responses").members().front().second;
    if (const io::Json* content = success.find("content")) {
      // A removal answers in another form than an output that goes into the bin.
      const bool is_removed = value.contains("removed");
      const io::Json schema = content->at("application/json").at("schema");
      expect_schema(document_,
                    is_removed && schema.dump().find("Output") != std::string::npos
                        ? document_.at("components").at("schemas").at("Removed")
                        : schema,
                    value, where);
    }
  }

  uint16_t port_ = 0;
  io::Json document_ = io::Json::object({{"paths", io::Json::object()}});
  std::pair<std::string, std::string> last_;
};

}  // namespace kinema::serve_test
