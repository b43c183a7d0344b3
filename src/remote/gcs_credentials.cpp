#include "remote/gcs_credentials.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <utility>

#include "core/error.h"
#include "io/json.h"
#include "remote/digest.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr const char* kScope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr const char* kTokenUri = "https://oauth2.googleapis.com/token";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string text_or(const Json& json, const char* key, const std::string& otherwise) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? otherwise : value->as_string();
}

/// The answer of a token server; its errors name the server and no secret.
std::pair<std::string, int64_t> read_token(const Response& response, const std::string& where) {
  check(response.status == 200,
        "[gs] {} gives out no token ({})\n  renew it: gcloud auth application-default login", where,
        response.status);
  const Json json = Json::parse(response.body, where);
  return {json.at("access_token").as_string(), json.at("expires_in").as_int()};
}

class Anonymous : public GcsCredentials {
  Token renew() override { return {}; }
};

/// OAuth's exchange of something long-lived for an access token.
class FromFile : public GcsCredentials {
 public:
  FromFile(const Json& json, const Patience& patience) : patience_(patience) {
    uri_ = text_or(json, "token_uri", kTokenUri);
    origin_of(uri_);
    const std::string type = json.at("type").as_string();
    if (type == "service_account") {
      email_ = json.at("client_email").as_string();
      key_ = json.at("private_key").as_string();
      key_id_ = text_or(json, "private_key_id", "");
      return;
    }
    check(type == "authorized_user",
          "[gs] {} is `{}`, expected service_account or authorized_user\n"
          "  other kinds of credentials are not built",
          json.at("type").where(), type);
    form_ = fmt::format("grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                        percent_encoded(json.at("client_id").as_string()),
                        percent_encoded(json.at("client_secret").as_string()),
                        percent_encoded(json.at("refresh_token").as_string()));
  }

 private:
  Token renew() override {
    const std::string form =
        form_.empty()
            ? "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=" +
                  claim()
            : form_;
    const Response response =
        send_following({.method = "POST",
                        .url = uri_,
                        .headers = {"Content-Type: application/x-www-form-urlencoded"},
                        .body = form},
                       patience_);
    const auto [token, seconds] = read_token(response, uri_);
    return {token, seconds};
  }

  /// A signed JSON web token (RFC 7523) that says who asks for what.
  std::string claim() const {
    const auto now = static_cast<int64_t>(std::time(nullptr));
    Json head = Json::object({{"alg", "RS256"}, {"typ", "JWT"}});
    if (!key_id_.empty()) {
      head.set("kid", key_id_);
    }
    const Json body = Json::object(
        {{"iss", email_}, {"scope", kScope}, {"aud", uri_}, {"iat", now}, {"exp", now + 3600}});
    const std::string text = base64_url(head.dump(-1)) + "." + base64_url(body.dump(-1));
    return text + "." + base64_url(sign_rs256(text, key_));
  }

  Patience patience_;
  std::string uri_;
  std::string form_;  // of a user
  std::string email_;
  std::string key_;
  std::string key_id_;
};

class FromMetadataServer : public GcsCredentials {
 public:
  explicit FromMetadataServer(std::string host) : host_(std::move(host)) {}

 private:
  Token renew() override {
    const std::string url =
        fmt::format("http://{}/computeMetadata/v1/instance/service-accounts/default/token", host_);
    try {
      // Off the cloud nobody answers; that must not take long.
      const Response response = send({.url = url, .headers = {"Metadata-Flavor: Google"}},
                                     {.connect_s = 2, .stall_s = 5});
      const auto [token, seconds] = read_token(response, "http://" + host_);
      return {token, seconds};
    } catch (const NetworkError&) {
      return {};
    }
  }

  std::string host_;
};

}  // namespace

std::string GcsCredentials::header() {
  const std::scoped_lock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (!asked_ || (!token_.empty() && now >= end_)) {
    const Token token = renew();
    token_ = token.text;
    // A minute early, so that a request under way does not see it run out.
    end_ = now + std::chrono::seconds(std::max<int64_t>(token.lifetime_s - 60, 1));
    asked_ = true;
  }
  return token_.empty() ? "" : "Authorization: Bearer " + token_;
}

std::shared_ptr<GcsCredentials> GcsCredentials::anonymous() {
  return std::make_shared<Anonymous>();
}

std::shared_ptr<GcsCredentials> GcsCredentials::from_file(const fs::path& path,
                                                          const Patience& patience) {
  return std::make_shared<FromFile>(Json::read(path), patience);
}

std::shared_ptr<GcsCredentials> GcsCredentials::from_metadata_server(const std::string& host) {
  return std::make_shared<FromMetadataServer>(host);
}

std::shared_ptr<GcsCredentials> GcsCredentials::from_environment(const Patience& patience) {
  if (const std::string file = variable("GOOGLE_APPLICATION_CREDENTIALS"); !file.empty()) {
    return from_file(file, patience);
  }
  const std::string config = variable("CLOUDSDK_CONFIG");
  const fs::path folder =
      config.empty() ? fs::path(variable("HOME")) / ".config" / "gcloud" : fs::path(config);
  const fs::path file = folder / "application_default_credentials.json";
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) {
    return from_file(file, patience);
  }
  const std::string host = variable("GCE_METADATA_HOST");
  return from_metadata_server(host.empty() ? "metadata.google.internal" : host);
}

}  // namespace kinema::remote
