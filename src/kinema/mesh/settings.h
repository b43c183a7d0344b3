#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/io/json_text.h"

namespace kinema::mesh {

/// Sizes of a device mesh and the sharding rules of logical axes, with the names and defaults of
/// MaxDiffusion's keys: see docs/guides/parallelism.md. `dcn_*` count slices, `ici_*` devices of a
/// slice; -1 is computed from the other axes of the same network.
struct Settings {
  std::vector<std::string> mesh_axes = {"data", "fsdp", "context", "tensor"};
  io::JsonText logical_axis_rules{
      R"([["batch", ["data", "fsdp"]], ["activation_batch", ["data", "fsdp"]], )"
      R"(["activation_self_attn_heads", ["context", "tensor"]], )"
      R"(["activation_cross_attn_q_length", ["context", "tensor"]], )"
      R"(["activation_length", "context"], ["activation_heads", "tensor"], ["mlp", )"
      R"("tensor"], ["embed", ["context", "fsdp"]], ["heads", "tensor"], ["norm", )"
      R"("tensor"], ["conv_batch", ["data", "context", "fsdp"]], ["out_channels", )"
      R"("tensor"], ["conv_out", "context"]])"};
  io::JsonText vae_logical_axis_rules{
      R"([["activation_batch", "redundant"], ["activation_length", "vae_spatial"], )"
      R"(["activation_heads", null], ["activation_kv_length", null], ["embed", null], )"
      R"(["heads", null], ["norm", null], ["conv_batch", "redundant"], ["out_channels", )"
      R"("vae_spatial"], ["conv_out", "vae_spatial"], ["conv_in", "vae_spatial"]])"};
  io::JsonText data_sharding{R"([["data", "fsdp", "context", "tensor"]])"};
  int64_t dcn_data_parallelism = 1;
  int64_t dcn_fsdp_parallelism = 1;
  int64_t dcn_context_parallelism = -1;
  int64_t dcn_tensor_parallelism = 1;
  int64_t ici_data_parallelism = 1;
  int64_t ici_fsdp_parallelism = 1;
  int64_t ici_context_parallelism = -1;
  int64_t ici_tensor_parallelism = 1;
  bool allow_split_physical_axes = false;
  int64_t compile_topology_num_slices = -1;

  bool operator==(const Settings&) const = default;
};

}  // namespace kinema::mesh
