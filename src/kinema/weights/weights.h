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

/// Moves parameters between diffusers folders, host and device.
namespace kinema::weights {

/// The kind of a safetensors file.
enum class FileKind { TRANSFORMER, LORA, OTHER };
FileKind file_kind(const std::filesystem::path& path);

/// Checks that the tensors of a folder or file are exactly those of the specs (names, shapes, float
/// dtypes); throws an Error with the first that is missing, additional or different, and the number
/// of others.
void check_folder(const std::filesystem::path& path, std::span<const nn::ParamSpec> specs);

/// Loads every parameter to the device from a folder or a single file, converted to the spec's
/// dtype, and stacked for scanned layers. Files are mapped and read in pieces whose pages are then
/// released, so that the host holds at most one layer of one parameter (one stacked parameter, if
/// the device cannot receive arrays in pieces). Adapters are merged into the weights before
/// rounding, or stored in the specs' adapter parameters (zero without adapters); throws the Errors
/// of Adapters.
std::vector<pjrt::Buffer> load(const std::filesystem::path& path,
                               std::span<const nn::ParamSpec> specs, pjrt::Client& client,
                               std::span<const Adapter> adapters = {});

/// The same over the devices of a mesh: each device receives only its part of a parameter, from the
/// mapped file.
std::vector<runtime::Array> load(const std::filesystem::path& path,
                                 std::span<const nn::ParamSpec> specs,
                                 const runtime::Devices& devices,
                                 std::span<const Adapter> adapters = {});

/// Initial parameters by their `init`, a pure function of (seed, name, layer); independent of
/// scanning.
std::vector<pjrt::Buffer> initialise(std::span<const nn::ParamSpec> specs, uint64_t seed,
                                     pjrt::Client& client);
/// The same values, sharded over the devices of a mesh.
std::vector<runtime::Array> initialise(std::span<const nn::ParamSpec> specs, uint64_t seed,
                                       const runtime::Devices& devices);

/// Writes a diffusers model folder: config.json and safetensors (sharded above `max_shard_bytes`),
/// each layer of a stack under its own key, in the given (or the stored) dtype.
void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, std::span<const pjrt::Buffer> buffers,
          std::optional<DType> dtype = {}, int64_t max_shard_bytes = int64_t{5} << 30);
/// The same for parameters returned by `to_host(i)`, called once per parameter in order; the specs
/// have their dtypes.
void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, const std::function<HostArray(size_t i)>& to_host,
          std::optional<DType> dtype = {}, int64_t max_shard_bytes = int64_t{5} << 30);
/// The part of a folder that process `own` writes: only its parameters are requested, none of which
/// is a stack. `owners`: as in io::ModelFolderOptions.
void save_part(const std::filesystem::path& folder, const io::Json& config,
               std::span<const nn::ParamSpec> specs,
               const std::function<HostArray(size_t i)>& to_host, std::vector<int64_t> owners,
               int64_t own);
/// The same from arrays that may be sharded: the folder contains complete tensors.
void save(const std::filesystem::path& folder, const io::Json& config,
          std::span<const nn::ParamSpec> specs, std::span<const runtime::Array> arrays,
          std::optional<DType> dtype = {}, int64_t max_shard_bytes = int64_t{5} << 30);

}  // namespace kinema::weights
