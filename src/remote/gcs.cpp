#include "remote/gcs.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "core/error.h"
#include "io/crc32c.h"
#include "io/json.h"
#include "remote/digest.h"
#include "remote/download_all.h"
#include "remote/repo_cache.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using io::Json;

// The service wants pieces in multiples of 256 KiB; larger ones mean fewer round trips.
constexpr size_t kPiece = size_t{8} << 20;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Base64 of four big-endian bytes, as the service writes CRCs.
std::string crc_text(uint32_t crc) {
  const unsigned char bytes[4] = {
      static_cast<unsigned char>(crc >> 24), static_cast<unsigned char>(crc >> 16),
      static_cast<unsigned char>(crc >> 8), static_cast<unsigned char>(crc)};
  unsigned char out[9] = {};
  EVP_EncodeBlock(out, bytes, 4);
  return reinterpret_cast<const char*>(out);
}

std::optional<uint32_t> read_crc(const std::string& text) {
  unsigned char bytes[6] = {};
  if (text.size() != 8 ||
      EVP_DecodeBlock(bytes, reinterpret_cast<const unsigned char*>(text.data()), 8) < 4) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | static_cast<uint32_t>(bytes[3]);
}

/// The service writes 64-bit numbers as strings.
int64_t number(const Json& json, const char* key) {
  const Json* value = json.find(key);
  if (value == nullptr) {
    return 0;
  }
  if (!value->is_string()) {
    return value->as_int();
  }
  const std::string& text = value->as_string();
  int64_t out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  check(read.ec == std::errc() && read.ptr == text.data() + text.size() && out >= 0,
        "[gs] {} is `{}`, expected a number", value->where(), text.substr(0, 40));
  return out;
}

GcsObject read_object(const Json& json) {
  GcsObject out{.name = json.at("name").as_string(),
                .size = number(json, "size"),
                .generation = number(json, "generation")};
  if (const Json* crc = json.find("crc32c"); crc != nullptr) {
    out.crc32c = read_crc(crc->as_string());
  }
  return out;
}

std::vector<std::string> with(std::vector<std::string> headers, const std::string& line) {
  if (!line.empty()) {
    headers.push_back(line);
  }
  return headers;
}

}  // namespace

std::optional<GsPath> read_gs_path(const std::string& text) {
  constexpr std::string_view kScheme = "gs://";
  if (!text.starts_with(kScheme)) {
    return std::nullopt;
  }
  const std::string rest = text.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  GsPath out{.bucket = rest.substr(0, slash),
             .name = rest.substr(std::min(slash + 1, rest.size()))};
  while (out.name.ends_with('/')) {
    out.name.pop_back();
  }
  const bool plain =
      out.bucket.size() >= 3 && out.bucket.size() <= 222 &&
      std::ranges::all_of(out.bucket, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
      });
  check(plain && (out.name.empty() || is_plain_path(out.name)),
        "[gs] `{}` is no gs://BUCKET/PATH: buckets have 3 to 222 of a-z 0-9 - _ .",
        text.substr(0, 200));
  return out;
}

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
    const std::string text = error.what();
    fail("[gs] {} cannot be reached: {}\n  check the network and proxies", where(name),
         text.substr(text.find("] ") + 2));
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
    const std::string text = error.what();
    fail("[gs] {} did not come: {}\n  check the network, then run again", where(name),
         text.substr(text.find("] ") + 2));
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
    const std::string text = error.what();
    fail("[gs] {} cannot be removed: {}", where(name), text.substr(text.find("] ") + 2));
  }
  if (response.status / 100 != 2 && response.status != 404) {
    refuse(response, name);
  }
}

GcsBucket::Upload::Upload(const GcsBucket& bucket, std::string name)
    : bucket_(bucket), name_(std::move(name)) {
  const Response response = bucket_.asked(
      {.method = "POST",
       .url = fmt::format("{}/upload/storage/v1/b/{}/o?uploadType=resumable&name={}",
                          bucket_.options_.endpoint, bucket_.bucket_, percent_encoded(name_)),
       .headers = {"Content-Type: application/json"},
       .body = "{}"},
      name_);
  session_ = response.header("location");
  check(!session_.empty(), "[gs] {}: the service opened no upload", bucket_.where(name_));
  session_ = resolved_url(bucket_.options_.endpoint, session_);
}

GcsBucket::Upload::~Upload() {
  if (!done_ && !session_.empty()) {
    try {
      Patience brief = bucket_.options_.patience;
      brief.retries = 0;
      brief.stall_s = std::min<int64_t>(brief.stall_s, 2);
      send({.method = "DELETE", .url = session_}, brief);
    } catch (const std::exception&) {
      // The service forgets an open upload after a week by itself.
    }
  }
}

void GcsBucket::Upload::write(std::span<const std::byte> bytes) {
  check(!done_, "[gs] {} is written to after its end", bucket_.where(name_));
  crc_ = io::crc32c(bytes, crc_);
  while (!bytes.empty()) {
    // What is full goes when more comes: the last piece must say that it is the last.
    if (held_.size() == kPiece) {
      send_piece(/*last=*/false);
    }
    const size_t count = std::min(bytes.size(), kPiece - held_.size());
    held_.append(reinterpret_cast<const char*>(bytes.data()), count);
    bytes = bytes.subspan(count);
  }
}

/// Sends what is held, and as often as needed what of it the server did not take.
void GcsBucket::Upload::send_piece(bool last) {
  Patience once = bucket_.options_.patience;
  once.retries = 0;
  std::string problem;
  bool ask_first = false;
  for (int attempt = 1; attempt <= bucket_.options_.patience.retries + 1; ++attempt) {
    if (attempt > 1) {
      back_off(bucket_.options_.patience, attempt - 1);
    }
    const int64_t end = sent_ + static_cast<int64_t>(held_.size());
    const std::string total = last ? fmt::format("{}", end) : "*";
    Request request{.method = "PUT", .url = session_};
    if (ask_first) {
      request.headers = {"Content-Range: bytes */" + total};
    } else {
      request.headers = {held_.empty()
                             ? "Content-Range: bytes */" + total
                             : fmt::format("Content-Range: bytes {}-{}/{}", sent_, end - 1, total)};
      request.body = held_;
    }
    Response response;
    try {
      response = send(request, once);
    } catch (const NetworkError& error) {
      const std::string text = error.what();
      problem = text.substr(text.find("] ") + 2);
      ask_first = true;  // how much arrived is not known
      continue;
    }
    if (response.status == 200 || response.status == 201) {
      made_ = read_object(Json::parse(response.body, bucket_.where(name_)));
      held_.clear();
      return;
    }
    if (response.status == 308) {
      // `bytes=0-N`: what it has, nothing when it has nothing.
      const std::string range = response.header("range");
      int64_t have = 0;
      if (const size_t dash = range.find('-'); dash != std::string::npos) {
        std::from_chars(range.data() + dash + 1, range.data() + range.size(), have);
        ++have;
      }
      check(have >= sent_ && have <= end, "[gs] {}: the service has {} bytes of {} to {}",
            bucket_.where(name_), have, sent_, end);
      if (have > sent_) {
        attempt = 1;
      }
      held_.erase(0, static_cast<size_t>(have - sent_));
      sent_ = have;
      ask_first = false;
      if (held_.empty() && !last) {
        return;
      }
      problem = "the service took a part only";
      continue;
    }
    if (!is_transient(response.status)) {
      bucket_.refuse(response, name_);
    }
    problem = fmt::format("the service answers {}", response.status);
    ask_first = true;
  }
  fail("[gs] {} could not be written: {}\n  nothing of it is visible; run again",
       bucket_.where(name_), problem);
}

GcsObject GcsBucket::Upload::commit() {
  send_piece(/*last=*/true);
  done_ = true;
  check(!made_.crc32c || *made_.crc32c == crc_,
        "[gs] {} arrived with CRC {} instead of {}: it was damaged on the way",
        bucket_.where(name_), made_.crc32c ? crc_text(*made_.crc32c) : "", crc_text(crc_));
  return made_;
}

fs::path fetch_from_gs(const GsPath& path, const Wanted& wanted, const GcsOptions& options,
                       const DownloadProgress& progress) {
  const GcsBucket bucket(path.bucket, options);
  const std::string source = "gs://" + path.bucket + "/" + path.name;
  const bool one_file = path.name.ends_with(".safetensors");
  const size_t slash = path.name.rfind('/');
  const std::string folder =
      one_file ? path.name.substr(0, slash == std::string::npos ? 0 : slash) : path.name;
  const std::string prefix = folder.empty() ? "" : folder + "/";
  std::map<std::string, GcsObject> objects;
  std::vector<std::string> names;
  for (GcsObject& object : bucket.list(one_file ? path.name : prefix)) {
    const std::string name = object.name.substr(prefix.size());
    if (is_plain_path(name)) {  // markers of folders end in a slash
      names.push_back(name);
      objects.emplace(name, std::move(object));
    }
  }
  check(!names.empty(), "[gs] {} does not exist, or holds nothing", source);
  const Wanted chosen = one_file ? Wanted{.file = path.name.substr(prefix.size())} : wanted;
  std::vector<Download> downloads;
  Digest listing(Digest::Kind::SHA1);  // 40 digits, as the cache wants commits
  for (const auto& [name, object] : objects) {
    listing.update(fmt::format("{} {}\n", name, object.generation));
  }
  for (const std::string& name : choose_files(names, chosen, source)) {
    const GcsObject& object = objects.at(name);
    downloads.push_back({.path = name,
                         .etag = fmt::format("{}-{:08x}-{}", object.generation,
                                             object.crc32c.value_or(0), object.size),
                         .file = bucket.remote_file(object)});
  }
  std::string key = "gs--" + path.bucket + "--" + folder;
  std::ranges::replace(key, '/', '-');
  // Names that differ in slashes only, or are too long for a folder, are told apart by a digest.
  Digest full(Digest::Kind::SHA1);
  full.update(source);
  const RepoCache cache(options.cache, key.substr(0, 120) + "-" + full.hex().substr(0, 12));
  const std::string commit = listing.hex();
  download_all(downloads, cache, commit,
               {.connections = options.connections, .patience = options.patience}, progress);
  return chosen.file.empty() ? cache.snapshot(commit) : cache.snapshot(commit) / chosen.file;
}

}  // namespace kinema::remote
