#pragma once

#include <cstdint>
#include <vector>

#include "kinema/mesh/mesh.h"
#include "kinema/mesh/placement.h"
#include "kinema/mesh/rules.h"
#include "kinema/mesh/settings.h"
#include "kinema/runtime/array.h"

/// Meshes of a client's first devices, in a configuration's layout.
namespace kinema::runtime {

inline mesh::Settings mesh_sizes(int64_t data, int64_t fsdp, int64_t context, int64_t tensor) {
  mesh::Settings config;
  config.ici_data_parallelism = data;
  config.ici_fsdp_parallelism = fsdp;
  config.ici_context_parallelism = context;
  config.ici_tensor_parallelism = tensor;
  return config;
}

/// As many devices as the product of the sizes.
inline Devices devices_of(const pjrt::Client& client, const mesh::Settings& config,
                          const char* attention = "flash") {
  const int64_t count = config.ici_data_parallelism * config.ici_fsdp_parallelism *
                        config.ici_context_parallelism * config.ici_tensor_parallelism;
  std::vector<mesh::Device> all;
  for (int64_t i = 0; i < count; ++i) {
    all.push_back({client.devices()[static_cast<size_t>(i)].id(), 0});
  }
  const auto rules = mesh::AxisRules::parse(config.logical_axis_rules, "logical_axis_rules");
  return {client, mesh::Placement(mesh::make_mesh(config, all),
                                  rules.for_attention(attention, /*uniform=*/true))};
}

}  // namespace kinema::runtime
