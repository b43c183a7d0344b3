#pragma once

#include <span>

#include "kinema/agents/compiler_flags.h"
#include "kinema/agents/programs.h"
#include "kinema/agents/settings.h"
#include "kinema/mesh/placement.h"
#include "kinema/nn/model_options.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::agents {

/// The devices of a run, how programs are compiled for one of them, and how networks are computed.
/// The policy runs on the client's first device.
struct Device {
  pjrt::Client client;
  runtime::ProgramOptions program;
  nn::ModelOptions model;
  CompilerFlags flags;
};
Device open_device(const Settings& settings);

/// How the networks of a run are computed.
nn::ModelOptions model_options(const Settings& settings);

/// `cpu`, `cuda` or `tpu`, by `jax.platform`.
std::string platform_of(const Settings& settings);

/// These devices as the mesh of `jax.train_mesh`: sequences over data and fsdp, parameters and
/// moments over fsdp. One device: no mesh. Throws an Error where sizes do not fit them, or where
/// sequences do not divide.
mesh::Placement train_placement(const Settings& settings, std::span<const mesh::Device> devices);

/// Compiles for the devices of a placement; changes nothing for one. `platform`: cpu, cuda or tpu.
void split_over(const mesh::Placement& place, const std::string& platform,
                runtime::ProgramOptions& program);

/// Those devices of a client that train: `jax.train_devices`, by their places among its devices.
runtime::Devices train_devices(const Settings& settings, const pjrt::Client& client);

}  // namespace kinema::agents
