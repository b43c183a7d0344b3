#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "remote/http.h"

namespace kinema::remote {

/// Who is asking Google Cloud Storage, and the access token that says so; renewed before it runs
/// out. May be used from several threads.
class GcsCredentials {
 public:
  /// No token: public buckets, and emulators.
  static std::shared_ptr<GcsCredentials> anonymous();
  /// A key file of a service account, or what `gcloud auth application-default login` wrote. Throws
  /// an Error for another kind of file.
  static std::shared_ptr<GcsCredentials> from_file(const std::filesystem::path& path,
                                                   const Patience& patience);
  /// The machine's own account, from `http://HOST/computeMetadata/...`; anonymous when no such
  /// server answers.
  static std::shared_ptr<GcsCredentials> from_metadata_server(const std::string& host);
  /// As Google's libraries look: GOOGLE_APPLICATION_CREDENTIALS, gcloud's file (under
  /// CLOUDSDK_CONFIG or ~/.config/gcloud), then the metadata server (GCE_METADATA_HOST).
  static std::shared_ptr<GcsCredentials> from_environment(const Patience& patience);

  virtual ~GcsCredentials() = default;

  /// `Authorization: Bearer ...`, or empty. Throws an Error when no token is given out.
  std::string header();

 protected:
  struct Token {
    std::string text;  // empty: none is needed
    int64_t lifetime_s = 3600;
  };
  virtual Token renew() = 0;

 private:
  std::mutex mutex_;
  std::string token_;
  std::chrono::steady_clock::time_point end_;
  bool asked_ = false;
};

}  // namespace kinema::remote
