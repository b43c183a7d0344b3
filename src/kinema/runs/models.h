#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/remote/hub.h"
#include "kinema/remote/model_files.h"
#include "kinema/runs/job.h"

namespace kinema::runs {

/// Where a model that was named lies on this machine: a path that is there as it is; a hub id
/// (`org/name`, `org/name@revision`, `org/name/FILE.safetensors`) or the path of a store after what
/// of it is wanted came into the cache, as a task of the job. Other names are returned as they are,
/// for whoever opens them to say what is missing; so are names below a folder that is here.
std::filesystem::path local_model(const std::string& name, const std::string& revision,
                                  const remote::Wanted& wanted, const Job& job = {});

/// A task of megabytes that begins with the first byte: what is in a cache already is no download.
remote::DownloadProgress download_progress(const std::string& name, const Job& job);

/// What a command does with the models of a configuration, which decides what of them it needs.
enum class Use { TRAIN, PREPARE, GENERATE, GENERATE_FROM_RUN };

/// The configuration with local folders for every ..._pretrained_model_name_or_path that the
/// command needs, downloaded where they are not on this machine. The other names stay.
config::Loaded with_local_models(config::Loaded loaded, Use use, const Job& job = {});

/// The folder of a data set on the hub, in the hub's cache; what `choose` picks of its paths and is
/// not there is downloaded. Throws an Error as fetch_from_hub does.
std::filesystem::path local_dataset(
    const std::string& name,
    const std::function<std::vector<std::string>(std::vector<std::string>)>& choose,
    const Job& job = {});

}  // namespace kinema::runs
