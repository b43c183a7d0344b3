#include "remote/gcs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/error.h"
#include "io/json.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using io::Json;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> with(std::vector<std::string> headers, const std::string& line) {
  if (!line.empty()) {
    headers.push_back(line);
  }
  return headers;
}

}  // namespace

GcsOptions GcsOptions::from_environment() {
  GcsOptions out;
  const std::string cache = variable("XDG_CACHE_HOME");
  out.cache =
      (cache.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(cache)) / "kinema" / "gs";
  if (std::string emulator = variable("STORAGE_EMULATOR_HOST"); !emulator.empty()) {
    while (emulator.ends_with('/')) {
      emulator.pop_back();
    }
    out.endpoint = emulator.find("://") == std::string::npos ? "http://" + emulator : emulator;
    origin_of(out.endpoint);
    out.credentials = GcsCredentials::anonymous();
    return out;
  }
  out.credentials = GcsCredentials::from_environment(out.patience);
  return out;
}

GcsBucket::GcsBucket(std::string bucket, GcsOptions options)
    : bucket_(std::move(bucket)), options_(std::move(options)) {
  if (!options_.credentials) {
    options_.credentials = GcsCredentials::anonymous();
  }
}

std::string GcsBucket::where(const std::string& name) const {
  return "gs://" + bucket_ + (name.empty() ? "" : "/" + name);
}

std::string GcsBucket::object_url(const std::string& name) const {
  return fmt::format("{}/storage/v1/b/{}/o/{}", options_.endpoint, bucket_, percent_encoded(name));
}

Response GcsBucket::ask(Request request) const {
  request.headers = with(std::move(request.headers), options_.credentials->header());
  return send_following(std::move(request), options_.patience);
}

Response GcsBucket::asked(Request request, const std::string& name) const {
  Response response;
  try {
    response = ask(std::move(request));
  } catch (const NetworkError& error) {
    fail("[gs] {} cannot be reached: {}\n  check the network and proxies", where(name),
         error.reason());
  }
  if (response.status / 100 != 2) {
    refuse(response, name);
  }
  return response;
}

void GcsBucket::refuse(const Response& response, const std::string& name) const {
  const bool signed_in = !options_.credentials->header().empty();
  if (response.status == 401 || response.status == 403) {
    fail("[gs] {} is not permitted ({}): {}\n  {}", where(name), response.status,
         signed_in ? "the account in use may not do this" : "no credentials were found",
         signed_in
             ? "grant it Storage Object User on the bucket, or use another account"
             : "set GOOGLE_APPLICATION_CREDENTIALS, or: gcloud auth application-default login");
  }
  check(response.status != 404, "[gs] {} does not exist (404)", where(name));
  fail("[gs] {}: the service answers {}\n  try again later", where(name), response.status);
}

std::vector<GcsObject> GcsBucket::list(const std::string& prefix) const {
  std::vector<GcsObject> out;
  std::string page;
  do {
    const std::string url =
        fmt::format("{}/storage/v1/b/{}/o?prefix={}&fields={}{}", options_.endpoint, bucket_,
                    percent_encoded(prefix),
                    percent_encoded("items(name,size,generation,crc32c),nextPageToken"),
                    page.empty() ? "" : "&pageToken=" + percent_encoded(page));
    const Json json = Json::parse(asked({.url = url}, prefix).body, where(prefix));
    if (const Json* items = json.find("items"); items != nullptr) {
      for (const Json& item : items->items()) {
        out.push_back(read_object(item));
      }
    }
    const Json* next = json.find("nextPageToken");
    page = next == nullptr ? "" : next->as_string();
  } while (!page.empty());
  std::ranges::sort(out, {}, &GcsObject::name);
  return out;
}

std::optional<GcsObject> GcsBucket::find(const std::string& name) const {
  const std::vector<GcsObject> found = list(name);
  const auto object = std::ranges::find(found, name, &GcsObject::name);
  return object == found.end() ? std::nullopt : std::optional(*object);
}

std::string GcsBucket::read(const std::string& name, int64_t begin, int64_t size) const {
  if (size <= 0) {
    return "";
  }
  std::string out;
  Request request{.url = object_url(name) + "?alt=media",
                  .headers = {fmt::format("Range: bytes={}-{}", begin, begin + size - 1),
                              "Accept-Encoding: identity"}};
  // A try that broke half way begins again.
  request.on_begin = [&](const Response&) { out.clear(); };
  request.sink = [&](std::span<const std::byte> bytes) {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  request.headers = with(std::move(request.headers), options_.credentials->header());
  Response response;
  try {
    response = send_following(std::move(request), options_.patience);
  } catch (const NetworkError& error) {
    fail("[gs] {} did not come: {}\n  check the network, then run again", where(name),
         error.reason());
  }
  if (response.status == 416) {
    return "";  // it ends before
  }
  if (response.status / 100 != 2) {
    refuse(response, name);
  }
  if (response.status == 200) {  // all of it, from a server without ranges
    out = static_cast<size_t>(begin) < out.size() ? out.substr(static_cast<size_t>(begin)) : "";
  }
  out.resize(std::min(out.size(), static_cast<size_t>(size)));
  return out;
}

RemoteFile GcsBucket::remote_file(const GcsObject& object) const {
  RemoteFile out{
      .what = where(object.name),
      .url = fmt::format("{}?alt=media&generation={}", object_url(object.name), object.generation),
      .headers = with({}, options_.credentials->header()),
      .size = object.size};
  out.crc32c = object.crc32c;
  return out;
}

void GcsBucket::copy(const std::string& from, const std::string& to) const {
  std::string token;
  // Large objects take several calls.
  for (;;) {
    const std::string url =
        fmt::format("{}/rewriteTo/b/{}/o/{}{}", object_url(from), bucket_, percent_encoded(to),
                    token.empty() ? "" : "?rewriteToken=" + percent_encoded(token));
    const Json json = Json::parse(
        asked({.method = "POST", .url = url, .headers = {"Content-Type: application/json"}}, from)
            .body,
        where(from));
    if (json.at("done").as_bool()) {
      return;
    }
    token = json.at("rewriteToken").as_string();
  }
}

void GcsBucket::remove(const std::string& name) const {
  Response response;
  try {
    response = ask({.method = "DELETE", .url = object_url(name)});
  } catch (const NetworkError& error) {
    fail("[gs] {} cannot be removed: {}", where(name), error.reason());
  }
  if (response.status / 100 != 2 && response.status != 404) {
    refuse(response, name);
  }
}

}  // namespace kinema::remote
