#include "kinema/models/flux/config_file.h"

#include <array>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/models/config_json.h"

namespace kinema::flux {
namespace {

using io::Json;

std::array<int64_t, 3> rope_axes(const Json& value) {
  const std::vector<int64_t> sizes = value.as_ints();
  check(sizes.size() == 3, "[flux] {} has {} sizes but must have 3: text, rows, columns",
        value.where(), sizes.size());
  return {sizes[0], sizes[1], sizes[2]};
}

}  // namespace

TransformerConfig parse_config(const Json& json) {
  const ConfigJson file("flux", "a Flux transformer", json);
  file.check_class(kClassName);
  file.check_fixed({{"patch_size", 1}});
  TransformerConfig c;
  c.in_channels = file.at("in_channels").as_int();
  c.out_channels = file.optional_size("out_channels", c.in_channels);
  c.num_layers = file.at("num_layers").as_int();
  c.num_single_layers = file.at("num_single_layers").as_int();
  c.num_attention_heads = file.at("num_attention_heads").as_int();
  c.attention_head_dim = file.at("attention_head_dim").as_int();
  c.joint_attention_dim = file.at("joint_attention_dim").as_int();
  c.pooled_projection_dim = file.at("pooled_projection_dim").as_int();
  c.guidance_embeds = file.at("guidance_embeds").as_bool();
  // Models from before this key have these values.
  c.axes_dims_rope =
      file.contains("axes_dims_rope") ? rope_axes(file.at("axes_dims_rope")) : c.axes_dims_rope;
  file.check_known();
  file.validated([&] { validate(c); });
  return c;
}

Json config_json(const TransformerConfig& c) {
  return Json::object(
      {{"_class_name", kClassName},
       {"attention_head_dim", c.attention_head_dim},
       {"axes_dims_rope",
        Json::array({c.axes_dims_rope[0], c.axes_dims_rope[1], c.axes_dims_rope[2]})},
       {"guidance_embeds", c.guidance_embeds},
       {"in_channels", c.in_channels},
       {"joint_attention_dim", c.joint_attention_dim},
       {"num_attention_heads", c.num_attention_heads},
       {"num_layers", c.num_layers},
       {"num_single_layers", c.num_single_layers},
       {"out_channels", c.out_channels == c.in_channels ? Json() : Json(c.out_channels)},
       {"patch_size", int64_t{1}},
       {"pooled_projection_dim", c.pooled_projection_dim}});
}

}  // namespace kinema::flux
