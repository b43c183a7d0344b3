#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "remote/download.h"
#include "remote/gcs_credentials.h"
#include "remote/gcs_object.h"
#include "remote/hub.h"
#include "remote/model_files.h"

namespace kinema::remote {

struct GcsOptions {
  std::string endpoint = "https://storage.googleapis.com";
  std::shared_ptr<GcsCredentials> credentials;  // shared by all threads that transfer
  Patience patience;
  int connections = 8;
  /// Where models from gs:// are kept.
  std::filesystem::path cache;

  /// STORAGE_EMULATOR_HOST (then without credentials), else Google and the credentials of the
  /// environment; the cache is XDG_CACHE_HOME/kinema/gs or ~/.cache/kinema/gs.
  static GcsOptions from_environment();
};

/// A bucket of Google Cloud Storage, through its JSON API. An object appears whole or not at all,
/// so that a folder is committed by writing its last object (a manifest) after all others.
///
/// Every function throws an Error in one or two lines: no network, no credentials, not permitted,
/// no such bucket or object.
class GcsBucket {
 public:
  GcsBucket(std::string bucket, GcsOptions options);

  /// Objects whose name begins with `prefix`, in order of name.
  std::vector<GcsObject> list(const std::string& prefix) const;
  /// One object, or nothing.
  std::optional<GcsObject> find(const std::string& name) const;
  /// Bytes `begin` to `begin + size` of an object; fewer where it ends before.
  std::string read(const std::string& name, int64_t begin, int64_t size) const;
  /// For `download`.
  RemoteFile remote_file(const GcsObject& object) const;
  /// Copies on the server; what was at `to` is replaced.
  void copy(const std::string& from, const std::string& to) const;
  /// Removes an object; it is no error when there is none.
  void remove(const std::string& name) const;

  /// An object being written.
  class Upload {
   public:
    Upload(const GcsBucket& bucket, std::string name);
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    /// Without commit, nothing appears.
    ~Upload();
    /// Appends bytes; sends what is full.
    void write(std::span<const std::byte> bytes);
    /// Sends the rest, and checks what the server has against what was given.
    GcsObject commit();

   private:
    void send_piece(bool last);

    const GcsBucket& bucket_;
    std::string name_;
    std::string session_;  // the URL that takes the bytes
    std::string held_;     // not sent yet
    int64_t sent_ = 0;
    uint32_t crc_ = 0;
    bool done_ = false;
    GcsObject made_;
  };

 private:
  std::string where(const std::string& name) const;
  std::string object_url(const std::string& name) const;
  Response ask(Request request) const;
  Response asked(Request request, const std::string& name) const;
  [[noreturn]] void refuse(const Response& response, const std::string& name) const;

  std::string bucket_;
  GcsOptions options_;
};

/// The local folder (or file) of a model under a gs:// path, brought into the cache first where it
/// changed or is not there. Throws as GcsBucket and fetch_from_hub do.
std::filesystem::path fetch_from_gs(const GsPath& path, const Wanted& wanted,
                                    const GcsOptions& options,
                                    const DownloadProgress& progress = {});

}  // namespace kinema::remote
