#pragma once

#include "kinema/config/field.h"
#include "kinema/mesh/settings.h"

namespace kinema::config {

/// The device mesh and its sharding rules: see docs/guides/parallelism.md.
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
          {.help = "rules that map logical axes to mesh axes; the first that fits is used"});
    visit("vae_logical_axis_rules", self.vae_logical_axis_rules, UNRELATED,
          {.help = "the same for the VAE, whose mesh axes are redundant and vae_spatial"});
    visit("data_sharding", self.data_sharding, MAY_CHANGE,
          {.help = "mesh axes that split the batch"});
    visit("dcn_data_parallelism", self.dcn_data_parallelism, MAY_CHANGE,
          {.help = "slices along the data axis; -1: the remaining ones",
           .min = -1,
           .not_zero = true});
    visit("dcn_fsdp_parallelism", self.dcn_fsdp_parallelism, MAY_CHANGE,
          {.help = "slices along the fsdp axis; -1: the remaining ones",
           .min = -1,
           .not_zero = true});
    visit("dcn_context_parallelism", self.dcn_context_parallelism, MAY_CHANGE,
          {.help = "slices along the context axis; -1: the remaining ones",
           .min = -1,
           .not_zero = true});
    visit("dcn_tensor_parallelism", self.dcn_tensor_parallelism, MAY_CHANGE,
          {.help = "slices along the tensor axis; -1: the remaining ones",
           .min = -1,
           .not_zero = true});
    visit("ici_data_parallelism", self.ici_data_parallelism, MAY_CHANGE,
          {.help = "devices per slice along the data axis; -1: the remaining ones",
           .min = -1,
           .not_zero = true});
    visit("ici_fsdp_parallelism", self.ici_fsdp_parallelism, MAY_CHANGE,
          {.help = "devices per slice along the fsdp axis; -1: the remaining ones",
           .min = -1,
           .not_zero = true});
    visit("ici_context_parallelism", self.ici_context_parallelism, MAY_CHANGE,
          {.help = "devices per slice along the context axis; -1: the remaining ones",
           .min = -1,
           .not_zero = true});
    visit("ici_tensor_parallelism", self.ici_tensor_parallelism, MAY_CHANGE,
          {.help = "devices per slice along the tensor axis; -1: the remaining ones",
           .min = -1,
           .not_zero = true});
    visit("allow_split_physical_axes", self.allow_split_physical_axes, MAY_CHANGE,
          {.help = "TPU: allow mesh axes that are parts of physical axes"});
    visit("attention_sharding_uniform", self.attention_sharding_uniform, MAY_CHANGE,
          {.help = "split the sequence of self- and cross-attention in the same way"});
    visit("compile_topology_num_slices", self.compile_topology_num_slices, UNRELATED,
          {.help = "number of TPU slices; -1: detect", .min = -1, .not_zero = true});
    visit("debug_sharding", self.debug_sharding, UNRELATED,
          {.help =
               "print the sharding of each tensor and the collectives that the compiler inserted"});
  }
};

}  // namespace kinema::config
