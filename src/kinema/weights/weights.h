#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/nn/params.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/array.h"
#include "kinema/weights/lora.h"

/// Parameters between diffusers folders, host and device.
namespace kinema::weights {

/// What a safetensors file is.
enum class FileKind { TRANSFORMER, LORA, OTHER };
FileKind file_kind(const std::filesystem::path& path);

/// Checks that the folder's, or the file's, tensors are exactly those of the specs (names, shapes,
/// float dtypes); throws an Error naming the first that is missing, extra or different and how many
/// more there are.
void check_folder(const std::filesystem::path& path, std::span<const nn::ParamSpec> specs);

/// Loads every parameter to the device from a folder or a single file, cast to the spec's dtype and
/// stacked where scanned. Files are mapped and read in pieces whose pages are given back, so that
/// the host holds no more than one layer of one parameter beside what the device has (where the
/// device takes arrays in pieces; else one stacked parameter). What adapters add is merged
/// into the weights before they are rounded, or put into the specs' low-rank additions (zero
/// without adapters); throws what Adapters throws.
std::vector<pjrt::Buffer> load(const std::filesystem::path& path,
                               std::span<const nn::ParamSpec> specs, pjrt::Client& client,
                               std::span<const Adapter> adapters = {});

/// The same over the devices of a mesh: each is given only the part of a parameter that the
/// placement's rules lay on it, straight from the mapped file.
std::vector<runtime::Array> load(const std::filesystem::path& path,
                                 std::span<const nn::ParamSpec> specs,
                                 const runtime::Devices& devices,
                                 std::span<const Adapter> adapters = {});

/// Fresh parameters by their `init`, a pure function of (seed, name, layer); independent of
/// scanning.
std::vector<pjrt::Buffer> initialise(std::span<const nn::ParamSpec> specs, uint64_t seed,
                                     pjrt::Client& client);
/// The same values, split over the devices of a mesh.
std::vector<runtime::Array> initialise(std::span<const nn::ParamSpec> specs, uint64_t seed,
                                       const runtime::Devices& devices);

/// Writes a diffusers model folder: config.json and safetensors (sharded above
/// `max_shard_bytes`), each layer of a stack under its own key, in the dtype given (or the stored).
void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, std::span<const pjrt::Buffer> buffers,
          std::optional<DType> dtype = {}, int64_t max_shard_bytes = int64_t{5} << 30);
/// The same of parameters that `to_host(i)` gives, each once and in order; the specs say their
/// dtypes.
void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, const std::function<HostArray(size_t i)>& to_host,
          std::optional<DType> dtype = {}, int64_t max_shard_bytes = int64_t{5} << 30);
/// The part of a folder that process `own` writes: it is asked for its parameters alone, of which
/// none is a stack. `owners`: as in io::ModelFolderOptions.
void save_part(const std::filesystem::path& folder, const io::Json& config,
               std::span<const nn::ParamSpec> specs,
               const std::function<HostArray(size_t i)>& to_host, std::vector<int64_t> owners,
               int64_t own);
/// The same from arrays that may be split: the folder is that of the whole ones.
void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, std::span<const runtime::Array> arrays,
          std::optional<DType> dtype = {}, int64_t max_shard_bytes = int64_t{5} << 30);

}  // namespace kinema::weights
