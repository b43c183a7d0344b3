#include "kinema/remote/store_connection.h"

#include <arrow/filesystem/gcsfs.h>
#include <arrow/filesystem/s3fs.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool any_variable(std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [](const char* name) { return !variable(name).empty(); });
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Without HOME, a file in the current folder must not be used.
bool is_file_at_home(const fs::path& name) {
  const fs::path home = user_home();
  return !home.empty() && is_file(home / name);
}

/// True if the machine's firmware names the maker: a virtual machine of its cloud.
bool made_by(std::string_view maker) {
  for (const char* file : {"/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name",
                           "/sys/class/dmi/id/board_vendor"}) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    if (line.starts_with(maker)) {
      return true;
    }
  }
  return false;
}

struct Endpoint {
  std::string scheme;
  std::string host;  // including a port
};

/// `http://HOST:PORT`, or without a scheme.
Endpoint endpoint_of(std::string text, const char* scheme) {
  while (text.ends_with('/')) {
    text.pop_back();
  }
  if (text.find("://") == std::string::npos) {
    text = fmt::format("{}://{}", scheme, text);
  }
  origin_of(text);
  const size_t colon = text.find("://");
  return {text.substr(0, colon), text.substr(colon + 3)};
}

// ---- Google Cloud Storage ------------------------------------------------------------------

bool has_google_credentials() {
  const std::string config = variable("CLOUDSDK_CONFIG");
  constexpr const char* kFile = "application_default_credentials.json";
  return any_variable({"GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST"}) ||
         (config.empty() ? is_file_at_home(fs::path(".config/gcloud") / kFile)
                         : is_file(fs::path(config) / kFile)) ||
         made_by("Google");
}

/// The sum of the waits before all retries; with zero the library makes no request.
double seconds_of(const Timeouts& timeouts) {
  const double waits = static_cast<double>((int64_t{1} << std::min(timeouts.retries, 16)) - 1) *
                       static_cast<double>(timeouts.backoff_ms) / 1e3;
  return std::max(1.0, waits);
}

std::shared_ptr<arrow::fs::FileSystem> connect_google(const Timeouts& timeouts) {
  const std::string emulator = variable("STORAGE_EMULATOR_HOST");
  const bool anonymous = !emulator.empty() || !has_google_credentials();
  arrow::fs::GcsOptions options =
      anonymous ? arrow::fs::GcsOptions::Anonymous() : arrow::fs::GcsOptions::Defaults();
  options.scheme = "https";
  if (!emulator.empty()) {
    const Endpoint endpoint = endpoint_of(emulator, "http");
    options.scheme = endpoint.scheme;
    options.endpoint_override = endpoint.host;
  }
  options.retry_limit_seconds = seconds_of(timeouts);
  auto made = arrow::fs::GcsFileSystem::Make(options);
  check(made.ok(), "[remote] no client for gs://: {}", made.status().message());
  return *made;
}

// ---- S3 ------------------------------------------------------------------------------------

bool has_amazon_credentials() {
  const std::string config = variable("AWS_SHARED_CREDENTIALS_FILE");
  return any_variable({"AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN",
                       "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                       "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"}) ||
         (config.empty() ? is_file_at_home(".aws/credentials") : is_file(config)) ||
         is_file_at_home(".aws/config") || made_by("Amazon");
}

class Retries : public arrow::fs::S3RetryStrategy {
 public:
  explicit Retries(const Timeouts& timeouts) : timeouts_(timeouts) {}

  bool ShouldRetry(const AWSErrorDetail& error, int64_t attempted) override {
    return error.should_retry && attempted < timeouts_.retries;
  }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t attempted) override {
    return timeouts_.backoff_ms << std::min<int64_t>(attempted, 16);
  }

 private:
  Timeouts timeouts_;
};

void initialise_s3() {
  static std::once_flag once;
  std::call_once(once, [] {
    arrow::Status made = arrow::fs::EnsureS3Initialized();
    check(made.ok(), "[remote] no client for s3://: {}", made.message());
  });
}

std::shared_ptr<arrow::fs::FileSystem> connect_amazon(const StorePath& path,
                                                      const Timeouts& timeouts) {
  initialise_s3();
  arrow::fs::S3Options options = has_amazon_credentials() ? arrow::fs::S3Options::Defaults()
                                                          : arrow::fs::S3Options::Anonymous();
  std::string endpoint = variable("AWS_ENDPOINT_URL_S3");
  if (endpoint.empty()) {
    endpoint = variable("AWS_ENDPOINT_URL");
  }
  options.region = variable("AWS_REGION");
  if (options.region.empty()) {
    options.region = variable("AWS_DEFAULT_REGION");
  }
  if (!endpoint.empty()) {
    const Endpoint read = endpoint_of(endpoint, "https");
    options.scheme = read.scheme;
    options.endpoint_override = read.host;
  }
  if (options.region.empty()) {
    options.region = "us-east-1";
    if (endpoint.empty()) {
      // Queries the service, without credentials.
      const auto region = arrow::fs::ResolveS3BucketRegion(path.bucket);
      options.region = region.ok() ? *region : options.region;
    }
  }
  options.connect_timeout = static_cast<double>(timeouts.connect_s);
  options.request_timeout = static_cast<double>(timeouts.stall_s);
  options.retry_strategy = std::make_shared<Retries>(timeouts);
  auto made = arrow::fs::S3FileSystem::Make(options);
  check(made.ok(), "[remote] no client for s3://: {}", made.status().message());
  std::atexit([] { (void)arrow::fs::EnsureS3Finalized(); });
  return *made;
}

}  // namespace

std::shared_ptr<arrow::fs::FileSystem> connect(const StorePath& path, const Timeouts& timeouts) {
  return path.scheme == "gs" ? connect_google(timeouts) : connect_amazon(path, timeouts);
}

// ---- Errors --------------------------------------------------------------------------------

namespace {

bool mentions(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

/// The text after the last `begin`, up to `end`; the whole text without `begin`.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  if (const size_t at = text.rfind(begin); at != std::string_view::npos) {
    text = text.substr(at + begin.size());
  }
  return text.substr(0, text.find(end));
}

/// The libraries' messages without internal details.
std::string short_reason(std::string_view message) {
  std::string_view text = message;
  if (mentions(text, {"google::cloud::Status("})) {
    text = between(text, "google::cloud::Status(", " error_info=");
    text = between(text, "with a last message of ", " error_info=");
    text = between(text, "PerformWork() - ", " error_info=");
    text =
        between(text, "The underlying error message was: ", " error_info=");  // about credentials
  } else {
    text = between(text, "AWS Error ", " (Request ID");
    text = between(text, "Details: ", " (Request ID");
  }
  std::string out(text.substr(0, 200));
  std::ranges::replace(out, '\n', ' ');
  return out;
}

std::string endpoint_note(const StorePath& path) {
  const std::vector<const char*> names =
      path.scheme == "gs" ? std::vector<const char*>{"STORAGE_EMULATOR_HOST"}
                          : std::vector<const char*>{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"};
  for (const char* name : names) {
    if (const std::string value = variable(name); !value.empty()) {
      return fmt::format("{} is {}: is a server there?", name, value);
    }
  }
  return "is there a way to the network?";
}

}  // namespace

StoreFailure failure_of(const arrow::Status& status, const StorePath& path) {
  const std::string& message = status.message();
  StoreFailure out;
  out.reason = short_reason(message);
  if (mentions(message, {"PERMISSION_DENIED", "UNAUTHENTICATED", "ACCESS_DENIED", "code: 401",
                         "code: 403", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH",
                         "INVALID_SIGNATURE", "redentials", "HTTP status 403"})) {
    out.kind = StoreFailure::Kind::REFUSED;
    out.remedy = path.scheme == "gs"
                     ? "credentials come from `gcloud auth application-default login` or "
                       "GOOGLE_APPLICATION_CREDENTIALS=KEY.json; they must allow this"
                     : "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                       "AWS_PROFILE; they must allow this";
  } else if (mentions(message, {"NO_SUCH_BUCKET"})) {
    out.kind = StoreFailure::Kind::MISSING;
    out.reason = fmt::format("there is no bucket {}", path.bucket);
  } else if (mentions(message, {"NOT_FOUND", "NO_SUCH_KEY", "[errno 2]", "does not exist"}) ||
             status.ToString().find("[errno 2]") != std::string::npos) {
    out.kind = StoreFailure::Kind::MISSING;
    out.reason = "it is not there";
  } else if (mentions(message, {"HTTP status 416", "OUT_OF_RANGE"})) {
    out.kind = StoreFailure::Kind::MISSING;
    out.reason = "it is shorter than it was when it was opened";
  } else {
    out.remedy = endpoint_note(path);
  }
  return out;
}

void disable_metadata_server() {
  if (!made_by("Amazon")) {
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", /*replace=*/0);
  }
}

}  // namespace kinema::remote
