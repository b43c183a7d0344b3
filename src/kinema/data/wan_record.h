#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "kinema/core/host_array.h"

namespace kinema::data {

/// One record of MaxDiffusion's Wan schema, with two more features for models that make videos of
/// images: `condition` and `encoder_hidden_states_image`.
struct WanRecord {
  HostArray latents;                // f32 or bf16 [c, f, h, w], already normalised
  HostArray encoder_hidden_states;  // f32 or bf16 [t, d]
  HostArray condition = {};         // f32 or bf16 [k, f, h, w], or no bytes
  HostArray image_states = {};      // f32 or bf16 [n, d], or no bytes
  std::optional<int64_t> timestep;  // evaluation sets only
};

/// Reads a serialized tf.train.Example of that schema; throws an Error with `where` for bytes that
/// are no Example, a missing feature, or a tensor of another rank or type.
WanRecord parse_wan_record(std::span<const std::byte> bytes, const std::string& where);

/// Shapes of a record's tensors, found without reading their values.
struct WanShapes {
  Shape latents;
  Shape encoder_hidden_states;

  bool operator==(const WanShapes&) const = default;
};
/// Throws an Error with `where` where parse_wan_record would for want of these.
WanShapes read_wan_shapes(std::span<const std::byte> bytes, const std::string& where);

/// The record as a serialized tf.train.Example; equal records give equal bytes.
std::string serialize_wan_record(const WanRecord& record);

}  // namespace kinema::data
