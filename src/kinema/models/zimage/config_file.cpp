#include "kinema/models/zimage/config_file.h"

#include <array>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/models/config_json.h"

namespace kinema::zimage {
namespace {

using io::Json;

std::array<int64_t, 3> three_axes(const Json& value) {
  const std::vector<int64_t> sizes = value.as_ints();
  check(sizes.size() == 3, "[zimage] {} has {} sizes but must have 3: frame, rows, columns",
        value.where(), sizes.size());
  return {sizes[0], sizes[1], sizes[2]};
}

Json json_of(const std::array<int64_t, 3>& sizes) {
  return Json::array({sizes[0], sizes[1], sizes[2]});
}

}  // namespace

TransformerConfig parse_config(const Json& json) {
  const ConfigJson file("zimage", "a Z-Image transformer", json);
  file.check_class(kClassName);
  file.check_fixed({{"all_patch_size", Json::array({int64_t{2}})},
                    {"all_f_patch_size", Json::array({int64_t{1}})},
                    {"qk_norm", true}});
  const int64_t siglip = file.optional_size("siglip_feat_dim", 0);
  check(siglip == 0, "[zimage] {} is {}: Z-Image-Omni, which takes pictures too, is not supported",
        json.at("siglip_feat_dim").where(), siglip);
  TransformerConfig c;
  c.in_channels = file.at("in_channels").as_int();
  c.dim = file.at("dim").as_int();
  c.n_layers = file.at("n_layers").as_int();
  c.n_refiner_layers = file.at("n_refiner_layers").as_int();
  c.n_heads = file.at("n_heads").as_int();
  c.norm_eps = file.at("norm_eps").as_number();
  c.cap_feat_dim = file.at("cap_feat_dim").as_int();
  c.rope_theta = file.at("rope_theta").as_number();
  c.t_scale = file.at("t_scale").as_number();
  c.axes_dims = three_axes(file.at("axes_dims"));
  c.axes_lens = three_axes(file.at("axes_lens"));
  // Stored, but the reference has as many key heads as query heads.
  file.check_known({"n_kv_heads"});
  file.validated([&] { validate(c); });
  return c;
}

Json config_json(const TransformerConfig& c) {
  return Json::object({{"_class_name", kClassName},
                       {"all_f_patch_size", Json::array({int64_t{1}})},
                       {"all_patch_size", Json::array({int64_t{2}})},
                       {"axes_dims", json_of(c.axes_dims)},
                       {"axes_lens", json_of(c.axes_lens)},
                       {"cap_feat_dim", c.cap_feat_dim},
                       {"dim", c.dim},
                       {"in_channels", c.in_channels},
                       {"n_heads", c.n_heads},
                       {"n_kv_heads", c.n_heads},
                       {"n_layers", c.n_layers},
                       {"n_refiner_layers", c.n_refiner_layers},
                       {"norm_eps", c.norm_eps},
                       {"qk_norm", true},
                       {"rope_theta", c.rope_theta},
                       {"siglip_feat_dim", Json()},
                       {"t_scale", c.t_scale}});
}

}  // namespace kinema::zimage
