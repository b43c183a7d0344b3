#include "kinema/remote/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/core/trimmed.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/remote/download_all.h"
#include "kinema/remote/repo_cache.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;
using io::Json;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// HF_HOME, or where it lies by default.
fs::path hugging_face_home() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) {
    return home;
  }
  return user_cache() / "huggingface";
}

fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string path = variable(name); !path.empty()) {
      return path;
    }
  }
  return hugging_face_home() / "hub";
}

std::string hub_token() {
  std::string token;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (token.empty()) {
      token = trimmed(variable(name));
    }
  }
  if (token.empty()) {
    const std::string path = variable("HF_TOKEN_PATH");
    const fs::path file = path.empty() ? hugging_face_home() / "token" : fs::path(path);
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) {
      token = trimmed(io::read_text(file, 65536));
    }
  }
  const bool plain = std::ranges::all_of(
      token, [](char c) { return c > 0x20 && static_cast<signed char>(c) > 0; });
  check(plain, "[hub] the token (HF_TOKEN, or the token file) has characters that no token has");
  return token;
}

const char* kind_of(const HubId& id) { return id.dataset ? "data set" : "model"; }

/// A model or data set and its revision on the endpoint.
class Repository {
 public:
  Repository(const HubId& id, const HubOptions& options)
      : id_(id), options_(options), cache_(options.cache, cache_name(id)) {
    // API requests get few retries: they are answered soon or not at all.
    timeouts_ = options_.timeouts;
    timeouts_.retries = std::min(timeouts_.retries, 2);
    if (!options_.token.empty()) {
      headers_.push_back("Authorization: Bearer " + options_.token);
    }
  }

  const RepoCache& cache() const { return cache_; }

  /// Commit and file names of a revision, from the hub's API.
  std::pair<std::string, std::vector<std::string>> list(const std::string& revision) const {
    const Response response =
        send_following({.url = fmt::format("{}/api/{}/{}/revision/{}", options_.endpoint,
                                           id_.dataset ? "datasets" : "models", id_.repo,
                                           percent_encoded(revision)),
                        .headers = headers_},
                       timeouts_);
    if (response.status != 200) {
      refuse(response, id_.repo);
    }
    const Json json = Json::parse(response.body, options_.endpoint + " about " + id_.repo);
    std::vector<std::string> files;
    for (const Json& sibling : json.at("siblings").items()) {
      const std::string& name = sibling.at("rfilename").as_string();
      if (is_plain_path(name)) {  // other names cannot be stored
        files.push_back(name);
      }
    }
    return {json.at("sha").as_string(), std::move(files)};
  }

  /// Size and digest of a file, without its contents.
  Download about(const std::string& path, const std::string& commit) const {
    const std::string url = fmt::format("{}/{}/resolve/{}/{}", options_.endpoint, place(), commit,
                                        percent_encoded(path, /*keep_slash=*/true));
    const std::string what = fmt::format("{} of {}", path, id_.repo);
    const Response response = head(url);
    if (response.status >= 400) {
      refuse(response, what);
    }
    Download out;
    out.path = path;
    const std::string linked = response.header("x-linked-etag");
    out.etag = plain_etag(linked.empty() ? response.header("etag") : linked);
    check(!out.etag.empty(), "[hub] {} gives {} no etag: is it a hub?", options_.endpoint, what);
    const std::string size = response.header("x-linked-size");
    out.file = {.url = url, .headers = headers_, .expected = {.what = what}};
    out.file.expected.size = number(size.empty() ? response.header("content-length") : size);
    if (is_hex(out.etag, 64)) {
      out.file.expected.sha256 = out.etag;
    } else if (is_hex(out.etag, 40)) {
      out.file.expected.git_sha1 = out.etag;
    }
    return out;
  }

  /// Throws the Error of an unsuccessful response.
  [[noreturn]] void refuse(const Response& response, const std::string& what) const {
    const std::string code = response.header("x-error-code");
    const std::string page = options_.endpoint + "/" + place();
    if (code == "GatedRepo" || response.status == 403) {
      fail(
          "[hub] {} is gated ({}): its terms must be accepted, and the token be yours\n  see {} "
          "and set HF_TOKEN",
          what, response.status, page);
    }
    if (response.status == 401) {
      fail("[hub] {} cannot be read (401): there is no such {}, or it is private\n  {}", what,
           kind_of(id_),
           options_.token.empty() ? "is the name right? for what is private or gated set HF_TOKEN"
                                  : "is the name right? may the token in use (HF_TOKEN) read it?");
    }
    if (response.status == 404) {
      fail("[hub] {} is not at {} (404){}", what, options_.endpoint,
           code == "RevisionNotFound" ? fmt::format(": it has no revision `{}`", id_.revision)
                                      : ": is the name right?");
    }
    fail("[hub] {}: {} answers {}\n  try again later", what, options_.endpoint, response.status);
  }

 private:
  /// The path below the endpoint.
  std::string place() const { return (id_.dataset ? "datasets/" : "") + id_.repo; }

  static std::string cache_name(const HubId& id) {
    const std::string& repo = id.repo;
    const size_t slash = repo.find('/');
    return (id.dataset ? "datasets--" : "models--") + repo.substr(0, slash) + "--" +
           repo.substr(slash + 1);
  }

  static bool is_hex(const std::string& text, size_t length) {
    return text.size() == length && std::ranges::all_of(text, [](char c) {
             return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
  }

  static std::string plain_etag(std::string etag) {
    if (etag.starts_with("W/")) {
      etag.erase(0, 2);
    }
    std::erase(etag, '"');
    return etag;
  }

  static int64_t number(const std::string& text) {
    int64_t value = -1;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return read.ec == std::errc() && value >= 0 ? value : -1;
  }

  /// HEAD; follows redirects inside the endpoint (a renamed model), but not those to the storage of
  /// large files: the redirecting response has the file's data.
  Response head(const std::string& url) const {
    Request request{.method = "HEAD", .url = url, .headers = headers_};
    request.headers.emplace_back("Accept-Encoding: identity");
    for (int attempt = 1;; ++attempt) {
      request.url = url;
      try {
        Response response = send(request, timeouts_);
        for (int hops = 0;
             hops < 5 && response.status / 100 == 3 && response.header("x-linked-etag").empty();
             ++hops) {
          request.url = resolved_url(request.url, response.header("location"));
          if (origin_of(request.url) != origin_of(url)) {
            break;
          }
          response = send(request, timeouts_);
        }
        if (!is_transient(response.status) || attempt > timeouts_.retries) {
          return response;
        }
      } catch (const NetworkError&) {
        if (attempt > timeouts_.retries) {
          throw;
        }
      }
      back_off(timeouts_, attempt);
    }
  }

  HubId id_;
  const HubOptions& options_;
  Timeouts timeouts_;
  RepoCache cache_;
  std::vector<std::string> headers_;
};

/// The cached state of a revision: complete, or with a missing file.
struct Cached {
  std::string commit;
  fs::path folder;
  std::string missing;  // empty: nothing
  /// False if only the names of a data set's cached files suggest that it is complete: files of
  /// another split or pattern may be cached, or an earlier download may have been interrupted.
  bool sure = true;
};

Cached look_up(const RepoCache& cache, const std::string& revision, const Wanted& wanted,
               const std::string& source) {
  const auto commit = cache.commit_of(revision);
  if (!commit) {
    return {.missing = "all of it"};
  }
  const fs::path folder = cache.snapshot(*commit);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return {.missing = "all of it"};
  }
  if (!wanted.choose) {
    return {*commit, folder, first_missing(folder, wanted)};
  }
  if (const auto listing = cache.listing(*commit)) {
    return {*commit, folder, first_missing(folder, choose_files(*listing, wanted, source))};
  }
  return {*commit, folder, first_missing(folder, wanted), /*sure=*/false};
}

/// True if a data set without missing files has all files of its commit, or if the hub does not
/// answer: then the cached files are used.
bool is_whole(const Cached& cached, const Repository& repository, const Wanted& wanted,
              const std::string& source) {
  std::vector<std::string> files;
  try {
    files = repository.list(cached.commit).second;
  } catch (const Error&) {
    return true;
  }
  repository.cache().set_listing(cached.commit, files);
  return first_missing(cached.folder, choose_files(files, wanted, source)).empty();
}

/// Letters, digits, `_`, `-` and `.`: the characters of names and revisions.
bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

/// An owner or a repository, without the slash.
bool is_hub_name(std::string_view text) {
  constexpr size_t kMost = 96;
  return !text.empty() && text.size() <= kMost && text[0] != '_' && text[0] != '-' &&
         text[0] != '.' && std::ranges::all_of(text, is_name_character);
}

/// A branch, tag or commit; `refs/pr/1` has slashes.
bool is_revision(std::string_view text) {
  constexpr size_t kMost = 200;
  return !text.empty() && text.size() <= kMost &&
         std::ranges::all_of(text, [](char c) { return c == '/' || is_name_character(c); });
}

bool is_weights_file(std::string_view path) {
  constexpr std::string_view kEnd = ".safetensors";
  return path.size() > kEnd.size() && path.ends_with(kEnd);
}

}  // namespace

std::optional<HubId> read_hub_id(const std::string& text, const std::string& revision) {
  constexpr size_t kMostId = 1024;  // OWNER/NAME@REVISION/FILE; longer text is not an id
  if (text.size() > kMostId) {
    return std::nullopt;
  }
  // OWNER/NAME, then optionally @REVISION, then optionally /FILE.safetensors.
  const std::string_view all = text;
  const size_t slash = std::min(all.find('/'), all.size());
  const size_t end = std::min(all.find_first_of("/@", slash + 1), all.size());
  if (slash == all.size() || !is_hub_name(all.substr(0, slash)) ||
      !is_hub_name(all.substr(slash + 1, end - slash - 1))) {
    return std::nullopt;
  }
  HubId out{.repo = text.substr(0, end), .revision = revision};
  std::string_view rest = all.substr(end);
  const bool has_revision = rest.starts_with('@');
  const size_t file = rest.find('/');
  if (file != std::string_view::npos && is_weights_file(rest.substr(file + 1))) {
    out.file = rest.substr(file + 1);
    rest = rest.substr(0, file);  // a file cannot follow a revision with slashes
  }
  if (has_revision) {
    out.revision = rest.substr(1);
  }
  if (has_revision ? !is_revision(out.revision) : !rest.empty()) {
    return std::nullopt;
  }
  const bool plain = out.repo.find("--") == std::string::npos &&
                     out.repo.find("..") == std::string::npos && is_plain_path(out.revision) &&
                     (out.file.empty() || is_plain_path(out.file));
  return plain ? std::optional(out) : std::nullopt;
}

HubOptions HubOptions::from_environment() {
  HubOptions out;
  if (std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) {
      endpoint.pop_back();
    }
    origin_of(endpoint);  // throws unless it is a URL
    out.endpoint = endpoint;
  }
  out.cache = hub_cache();
  out.token = hub_token();
  std::string offline = variable("HF_HUB_OFFLINE");
  std::ranges::transform(offline, offline.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  out.offline = offline == "1" || offline == "ON" || offline == "YES" || offline == "TRUE";
  if (const std::string timeout = variable("HF_HUB_DOWNLOAD_TIMEOUT"); !timeout.empty()) {
    int64_t seconds = 0;
    std::from_chars(timeout.data(), timeout.data() + timeout.size(), seconds);
    check(seconds > 0 && seconds <= 86400,
          "[hub] HF_HUB_DOWNLOAD_TIMEOUT is `{}`, expected seconds from 1 to 86400", timeout);
    out.timeouts.stall_s = seconds;
    out.timeouts.connect_s = seconds;
  }
  return out;
}

fs::path fetch_from_hub(const HubId& id, const Wanted& wanted, const HubOptions& options,
                        const DownloadProgress& progress) {
  const Repository repository(id, options);
  const Cached cached = look_up(repository.cache(), id.revision, wanted, id.repo);
  if (cached.missing.empty() &&
      (cached.sure || options.offline || is_whole(cached, repository, wanted, id.repo))) {
    return wanted.file.empty() ? cached.folder : cached.folder / wanted.file;
  }
  check(!options.offline, "[hub] {} is incomplete in {} ({} is missing) and HF_HUB_OFFLINE is set",
        id.repo, options.cache.string(), cached.missing);
  const auto network = [&](const NetworkError& error) {
    fail(
        "[hub] {} is not in {}, and cannot be fetched: {}\n  check the network, HF_ENDPOINT and "
        "proxies, or give a local folder",
        id.repo, options.cache.string(), error.reason());
  };
  std::vector<Download> downloads;
  std::string commit;
  try {
    const auto [sha, files] = repository.list(id.revision);
    commit = sha;
    if (wanted.choose) {
      repository.cache().set_listing(commit, files);
    }
    const fs::path there = repository.cache().snapshot(commit);
    for (const std::string& path : choose_files(files, wanted, id.repo)) {
      // A data set may have thousands.
      if (!wanted.choose || !first_missing(there, {path}).empty()) {
        downloads.push_back(repository.about(path, commit));
      }
    }
  } catch (const NetworkError& error) {
    network(error);
  }
  download_all(downloads, repository.cache(), commit,
               {.connections = options.connections,
                .timeouts = options.timeouts,
                .refused = [&](const Response& response,
                               const std::string& what) { repository.refuse(response, what); }},
               progress);
  repository.cache().set_ref(id.revision, commit);
  const fs::path folder = repository.cache().snapshot(commit);
  const std::string missing = wanted.choose ? "" : first_missing(folder, wanted);
  check(missing.empty(), "[hub] {} has no {}, which its model_index.json asks for", id.repo,
        missing);
  return wanted.file.empty() ? folder : folder / wanted.file;
}

}  // namespace kinema::remote
