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

/// Which plugin and devices a configuration asks for, and the options that it is opened with.
runtime::ClientSpec client_spec(const config::Config& config);

/// Opens the devices of a configuration, with the other processes of the job.
pjrt::Client open_client(const config::Config& config, const Job& job);
/// The same of devices that this process of the job has for itself.
pjrt::Client open_own_client(const config::Config& config, const Job& job);

/// True where devices of the CPU plugin stand for those of another kind, which are not here.
bool has_mock_devices(const config::Config& config);

/// What there is to say about the keys of the client: those that this hardware has no use for, and
/// that its devices are mock ones.
std::vector<std::string> device_notices(const config::Config& config);

/// Devices as a mesh sees them. Of several processes with GPUs a slice is a host, as hosts have a
/// fast network within; `hosts`: by process, empty: each process has its own. Devices that tell
/// their slice (`slice_index`, `partition_index`) are believed, and CPUs are all of one.
std::vector<mesh::Device> mesh_devices(std::span<const pjrt::DeviceDescription> devices,
                                       const std::string& platform,
                                       std::span<const std::string> hosts);

/// The mesh of a configuration over all devices of a client, with the rules of the transformer.
/// `hosts`: see mesh_devices. Throws what mesh::make_mesh throws.
mesh::Placement placement(const config::Config& config, const pjrt::Client& client,
                          std::span<const std::string> hosts = {});
/// What the axes of the mesh multiply to, without those that take what is left.
int64_t asked_devices(const config::Config& config);
/// The same over this process's devices alone.
mesh::Placement own_placement(const config::Config& config, const pjrt::Client& client);
/// The same over devices that need not be here.
mesh::Placement placement(const config::Config& config, std::span<const mesh::Device> devices);

/// What makes the batch: `per_device_batch_size 0.25 on 4 devices`, or `global_batch_size`.
std::string batch_origin(const config::Config& config, const mesh::Placement& place);

/// Whether global_batch_size says how large the batch is, and not per_device_batch_size.
bool gives_global_batch(const config::Config& config);

/// How large the batch of a training step is and how it lies on the devices, on one line:
/// `1 sample (...), tokens over fsdp=4, ...` (mesh::batch_text).
std::string batch_text(const config::Config& config, const mesh::Placement& asked, int64_t samples);

/// The VAE's own mesh over this process's devices of a client: groups of `vae_spatial` devices that
/// share a frame, and its own rules. Throws an Error when the devices do not divide into such
/// groups.
mesh::Placement vae_placement(const config::Config& config, const pjrt::Client& client);

/// The kernel that the configuration wants for attention on GPUs.
kernels::GpuAttention gpu_attention(const config::Config& config);

/// Which kinds of our kernels programs use.
struct Kernels {
  bool attention = true;
  bool norm_rotation = true;
};
Kernels wanted_kernels(const config::Config& config);
config::Loaded with_kernels(config::Loaded loaded, const Kernels& kernels);

/// Which kernels of ours programs use, on a CPU or on an accelerator.
void set_kernels(const config::Config& config, bool is_cpu, runtime::ProgramOptions& options);

/// Cache, dump folder, kernels and compiler flags of a configuration's programs. Whether the flags
/// are safe is check_flags's.
runtime::ProgramOptions program_options(const config::Config& config);
/// The same for the step of train or generate, which may come from a file (compiled_step).
runtime::ProgramOptions step_program_options(const config::Config& config);

/// Programs that are emitted from here on use no instructions beyond cpu_isa.
void limit_cpu_isa(const config::Config& config);

/// Where texts of programs are written; empty: nowhere.
std::string dump_folder(const config::Config& config);

/// A search for the fastest block sizes of attention.
struct TileSearch {
  bool on = false;
  bool full = false;             // all sizes, not the likely ones alone
  int64_t runs = 1;              // that each is timed
  std::filesystem::path folder;  // of the table; empty: it is not kept
  std::string attention;         // the kind, in messages
};
TileSearch tile_search(const config::Config& config);

}  // namespace kinema::resolve
