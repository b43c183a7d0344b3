#pragma once

#include "kinema/config/field.h"
#include "kinema/mesh/settings.h"

namespace kinema::config {

/// The device mesh and what lies where on it: see docs/guides/parallelism.md.
struct ParallelConfig : mesh::Settings {
  bool attention_sharding_uniform = true;
  bool debug_sharding = false;

  bool operator==(const ParallelConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("mesh_axes", self.mesh_axes, MAY_CHANGE,
          {.help = "axes of the device mesh, outermost first",
           .min_items = 1,
           .distinct = true,
           .one_of = "data | fsdp | context | tensor"});
    visit("logical_axis_rules", self.logical_axis_rules, MAY_CHANGE,
          {.help = "which mesh axes a logical axis lies on; the first rule that fits wins"});
    visit("vae_logical_axis_rules", self.vae_logical_axis_rules, UNRELATED,
          {.help = "the same for the VAE, whose mesh axes are redundant and vae_spatial"});
    visit("data_sharding", self.data_sharding, MAY_CHANGE,
          {.help = "mesh axes that split a batch as it comes from the host"});
    visit("dcn_data_parallelism", self.dcn_data_parallelism, MAY_CHANGE,
          {.help = "slices along data; -1: what is left", .min = -1, .not_zero = true});
    visit("dcn_fsdp_parallelism", self.dcn_fsdp_parallelism, MAY_CHANGE,
          {.help = "slices along fsdp; -1: what is left", .min = -1, .not_zero = true});
    visit("dcn_context_parallelism", self.dcn_context_parallelism, MAY_CHANGE,
          {.help = "slices along context; -1: what is left", .min = -1, .not_zero = true});
    visit("dcn_tensor_parallelism", self.dcn_tensor_parallelism, MAY_CHANGE,
          {.help = "slices along tensor; -1: what is left", .min = -1, .not_zero = true});
    visit("ici_data_parallelism", self.ici_data_parallelism, MAY_CHANGE,
          {.help = "devices of a slice along data; -1: what is left", .min = -1, .not_zero = true});
    visit("ici_fsdp_parallelism", self.ici_fsdp_parallelism, MAY_CHANGE,
          {.help = "devices of a slice along fsdp; -1: what is left", .min = -1, .not_zero = true});
    visit("ici_context_parallelism", self.ici_context_parallelism, MAY_CHANGE,
          {.help = "devices of a slice along context; -1: what is left",
           .min = -1,
           .not_zero = true});
    visit(
        "ici_tensor_parallelism", self.ici_tensor_parallelism, MAY_CHANGE,
        {.help = "devices of a slice along tensor; -1: what is left", .min = -1, .not_zero = true});
    visit("allow_split_physical_axes", self.allow_split_physical_axes, MAY_CHANGE,
          {.help = "TPU: mesh axes need not be whole axes of the network's grid"});
    visit("attention_sharding_uniform", self.attention_sharding_uniform, MAY_CHANGE,
          {.help = "self- and cross-attention split the sequence alike"});
    visit("compile_topology_num_slices", self.compile_topology_num_slices, UNRELATED,
          {.help = "slices that the devices form; -1: as they say", .min = -1, .not_zero = true});
    visit("debug_sharding", self.debug_sharding, UNRELATED,
          {.help = "print where each tensor lies and what the compiler moves between devices"});
  }
};

}  // namespace kinema::config
