#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kinema/remote/http.h"
#include "kinema/remote/model_files.h"

namespace kinema::remote {

/// A model on the hub: `Wan-AI/Wan2.1-T2V-1.3B-Diffusers`, with `@REVISION` when another than main
/// is meant, and `/FILE` behind it for one file.
struct HubId {
  std::string repo;      // `org/name`
  std::string revision;  // branch, tag or commit
  std::string file;      // path inside; empty: the model
  bool dataset = false;  // not a model but a data set

  bool operator==(const HubId&) const = default;
};

/// Reads an id; nothing for text that cannot be one (a path with a dot or a slash in front, one
/// word, other characters).
std::optional<HubId> read_hub_id(const std::string& text, const std::string& revision = "main");

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::filesystem::path cache;
  /// Sent to the endpoint only; empty: none.
  std::string token;
  /// Take what the cache has, and no network.
  bool offline = false;
  /// Files that come at the same time.
  int connections = 4;
  Patience patience;

  /// What huggingface_hub reads: HF_ENDPOINT, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME,
  /// XDG_CACHE_HOME, HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE,
  /// HF_HUB_DOWNLOAD_TIMEOUT. Throws an Error for a value that cannot be.
  static HubOptions from_environment();
};

/// Told while files come: bytes so far, and of all files.
using DownloadProgress = std::function<void(int64_t done, int64_t total)>;

/// The folder of a model (or one file of it), or of a data set, in the cache that huggingface_hub
/// uses too; what is not there is downloaded, and checked against size and digest. What the cache
/// has whole is taken without asking the network; of a data set that another program brought the
/// hub is asked once which files it has, and if it does not answer, they are those that are there.
///
/// Throws an Error in one or two lines: no such model or data set, private or gated (401, 403), no
/// network, stalled, half a file, a wrong digest, a full disk, or offline and not in the cache.
std::filesystem::path fetch_from_hub(const HubId& id, const Wanted& wanted,
                                     const HubOptions& options,
                                     const DownloadProgress& progress = {});

}  // namespace kinema::remote
