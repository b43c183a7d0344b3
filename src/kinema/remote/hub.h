#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kinema/remote/http.h"
#include "kinema/remote/model_files.h"

namespace kinema::remote {

/// A model on the hub: `Wan-AI/Wan2.1-T2V-1.3B-Diffusers`, optionally with `@REVISION` (default
/// main) and `/FILE` for a single file.
struct HubId {
  std::string repo;      // `org/name`
  std::string revision;  // branch, tag or commit
  std::string file;      // path in the repository; empty: the model
  bool dataset = false;  // a data set instead of a model

  bool operator==(const HubId&) const = default;
};

/// Parses an id; nothing for text that is not one (a path that starts with a dot or a slash, a
/// single word, other characters).
std::optional<HubId> read_hub_id(const std::string& text, const std::string& revision = "main");

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::filesystem::path cache;
  /// Sent to the endpoint only; empty: none.
  std::string token;
  /// Use the cache only.
  bool offline = false;
  /// Number of simultaneous downloads.
  int connections = 4;
  Timeouts timeouts;

  /// Reads huggingface_hub's variables: HF_ENDPOINT, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME,
  /// XDG_CACHE_HOME, HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE,
  /// HF_HUB_DOWNLOAD_TIMEOUT. Throws an Error for an invalid value.
  static HubOptions from_environment();
};

/// Called during downloads: bytes so far, and of all files.
using DownloadProgress = std::function<void(int64_t done, int64_t total)>;

/// The folder of a model (or one of its files), or of a data set, in the cache that huggingface_hub
/// uses too; missing files are downloaded, and checked against size and digest. A complete model in
/// the cache is used without network access; for a data set that another program downloaded, the
/// hub is asked once for its files, and if it does not answer, the cached files are used.
///
/// Throws an Error of one or two lines: unknown model or data set, private or gated (401, 403), no
/// network, a stalled or incomplete transfer, a wrong digest, a full disk, or offline and not in
/// the cache.
std::filesystem::path fetch_from_hub(const HubId& id, const Wanted& wanted,
                                     const HubOptions& options,
                                     const DownloadProgress& progress = {});

}  // namespace kinema::remote
