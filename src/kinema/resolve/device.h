#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/mesh/placement.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/program.h"

namespace kinema::resolve {

/// The plugin and devices of a configuration, and the options to open them with.
runtime::ClientSpec client_spec(const config::Config& config);

/// Opens the devices of a configuration, together with the job's other processes.
pjrt::Client open_client(const config::Config& config, const Job& job);
/// The same for devices that only this process of the job uses.
pjrt::Client open_local_client(const config::Config& config, const Job& job);

/// True if CPU devices simulate those of another kind.
bool has_mock_devices(const config::Config& config);

/// Log lines about the keys of the client: keys that have no effect on this hardware, and mock
/// devices.
std::vector<std::string> device_notices(const config::Config& config);

/// Devices for a mesh. Devices that report their slice (`slice_index`, `partition_index`) keep it;
/// CPUs are one slice; GPUs of several processes form one slice per host, because hosts have a fast
/// network inside. `hosts`: the host name of each process; empty: one host per process.
std::vector<mesh::Device> mesh_devices(std::span<const pjrt::DeviceDescription> devices,
                                       const std::string& platform,
                                       std::span<const std::string> hosts);

/// The mesh of a configuration over all devices of a client, with the transformer's axis rules.
/// `hosts`: see mesh_devices. Throws the errors of mesh::make_mesh.
mesh::Placement placement(const config::Config& config, const pjrt::Client& client,
                          std::span<const std::string> hosts = {});
/// The product of the mesh's axes, without those of size -1.
int64_t requested_devices(const config::Config& config);
/// The same over this process's devices only.
mesh::Placement local_placement(const config::Config& config, const pjrt::Client& client);
/// The same over described devices, which need not exist.
mesh::Placement placement(const config::Config& config, std::span<const mesh::Device> devices);

/// The keys that set the batch size: `per_device_batch_size 0.25 on 4 devices`, or
/// `global_batch_size`.
std::string batch_origin(const config::Config& config, const mesh::Placement& place);

/// The `key=value` that makes a batch of `samples` samples on these devices: of global_batch_size
/// if it sets the batch size now, else of per_device_batch_size.
std::string batch_argument(const config::Config& config, int64_t samples, int64_t devices);

/// The size and sharding of a training batch in one line: `1 sample (...), tokens over fsdp=4, ...`
/// (mesh::batch_text).
std::string batch_text(const config::Config& config, const mesh::Placement& asked, int64_t samples);

/// The VAE's mesh over this process's devices of a client: groups of `vae_spatial` devices that
/// share a frame, with vae_logical_axis_rules. Throws an Error if the number of devices is not a
/// multiple of `vae_spatial`.
mesh::Placement vae_placement(const config::Config& config, const pjrt::Client& client);

/// The configuration's attention kernel for GPUs.
kernels::GpuAttention gpu_attention(const config::Config& config);

/// Kinds of kinema's kernels that programs use.
struct Kernels {
  bool attention = true;
  bool norm_rotation = true;
};
Kernels wanted_kernels(const config::Config& config);
config::Loaded with_kernels(config::Loaded loaded, const Kernels& kernels);

/// Sets how a program for a CPU or an accelerator is emitted: which of kinema's kernels it uses,
/// and the folder for its text.
void set_emit_options(const config::Config& config, bool is_cpu, runtime::ProgramOptions& options);

/// Cache, dump folder, kernels and compiler flags of a configuration's programs. check_flags checks
/// the flags.
runtime::ProgramOptions program_options(const config::Config& config);
/// The same for the step of `train` or `generate`, which may come from a file (compiled_step).
runtime::ProgramOptions step_program_options(const config::Config& config);

/// Limits the CPU instructions of all programs that are emitted after this call to cpu_isa.
void limit_cpu_isa(const config::Config& config);

/// The settings of autotuning attention's block sizes.
struct TileSearch {
  bool on = false;
  bool full = false;             // all sizes, not only the likely ones
  int64_t runs = 1;              // timed runs of each size
  std::filesystem::path folder;  // of the table; empty: it is not saved
  std::string attention;         // the attention kind, for messages
};
TileSearch tile_search(const config::Config& config);

}  // namespace kinema::resolve
