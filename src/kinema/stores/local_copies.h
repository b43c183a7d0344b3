#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/remote/hub.h"
#include "kinema/remote/mirror.h"
#include "kinema/remote/model_files.h"

/// Paths of stores (gs://, s3://) and ids of the hub. Inputs are copied to this machine before they
/// are read; outputs are written to this machine and mirrored.
namespace kinema::stores {

/// The part of the cache folder for copies of stores' files, and for files before their upload.
std::filesystem::path stores_folder();

/// `path`/`name`, in a store or on this machine.
std::string below(const std::string& path, const std::string& name);

/// The local path for `path`: itself, or the copy of a store's file or folder, which is downloaded
/// if it is missing or has changed.
std::string local_copy(const std::string& path, const Job& job);

/// A copy of the files that `kinema watch` shows if the run folder is in a store; other paths are
/// returned unchanged.
std::string watched_copy(const std::string& run);

/// The folder to write to: `path` itself, or a local folder for one in a store.
std::string staging_folder(const std::string& path);

/// Mirrors files while they are written: everything in the folder `local` is uploaded to `path` of
/// a store. Null for a local path.
std::unique_ptr<remote::Mirror> make_mirror(const std::string& path, const std::string& local,
                                            const Job& job, std::vector<std::string> except = {});

/// The local path of a model: an existing path unchanged; for a hub id (`org/name`,
/// `org/name@revision`, `org/name/FILE.safetensors`) or a path in a store, the cached copy, after
/// the wanted parts were downloaded as a task of the job. Other names, and names in an existing
/// folder, are returned unchanged; opening them reports the error.
std::filesystem::path local_model(const std::string& name, const std::string& revision,
                                  const remote::Wanted& wanted, const Job& job = {});

/// The progress of a download in megabytes, which starts with the first byte: cached files are not
/// shown.
remote::DownloadProgress download_progress(const std::string& name, const Job& job);

/// The folder of a hub data set in the hub's cache; the files that `choose` selects from its paths
/// are downloaded if they are missing. Throws the errors of fetch_from_hub.
std::filesystem::path local_dataset(
    const std::string& name,
    const std::function<std::vector<std::string>(std::vector<std::string>)>& choose,
    const Job& job = {});

}  // namespace kinema::stores
