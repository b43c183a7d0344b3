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

/// Paths of stores (gs://, s3://) and ids of the hub: what is read is copied to this machine first;
/// what is written lies on this machine first and is mirrored.
namespace kinema::stores {

/// The part of the cache folder for copies of stores' files, and for files on their way to stores.
std::filesystem::path stores_folder();

/// `path`/`name`, of a store or of this machine.
std::string below(const std::string& path, const std::string& name);

/// The path on this machine of what `path` names: itself, or the copy of what a store has, which is
/// brought where it is missing or has changed.
std::string local_copy(const std::string& path, const Job& job);

/// Of a run folder in a store, the copy of what `kinema watch` draws; another path as it is.
std::string watched_copy(const std::string& run);

/// A folder to write to: `path` itself, or a folder of this machine for one of a store.
std::string staging_of(const std::string& path);

/// Files as they are written: the folder `local`, and everything in it, is mirrored to `path` of a
/// store. Null for a local path.
std::unique_ptr<remote::Mirror> mirror_of(const std::string& path, const std::string& local,
                                          const Job& job, std::vector<std::string> except = {});

/// Where a model that was named lies on this machine: a path that is there as it is; a hub id
/// (`org/name`, `org/name@revision`, `org/name/FILE.safetensors`) or the path of a store after what
/// of it is wanted came into the cache, as a task of the job. Other names are returned as they are,
/// for whoever opens them to say what is missing; so are names below a folder that is here.
std::filesystem::path local_model(const std::string& name, const std::string& revision,
                                  const remote::Wanted& wanted, const Job& job = {});

/// A task of megabytes that begins with the first byte: what is in a cache already is no download.
remote::DownloadProgress download_progress(const std::string& name, const Job& job);

/// The folder of a data set on the hub, in the hub's cache; what `choose` picks of its paths and is
/// not there is downloaded. Throws an Error as fetch_from_hub does.
std::filesystem::path local_dataset(
    const std::string& name,
    const std::function<std::vector<std::string>(std::vector<std::string>)>& choose,
    const Job& job = {});

}  // namespace kinema::stores
