#include "kinema/models/wan/block.h"

#include <cmath>

#include "kinema/nn/modulation.h"

namespace kinema::wan {
namespace {

/// The rows of the modulation, each [b, 1, d] or (one timestep per token) [b, s, d].
std::vector<Tensor> modulation_rows(Tensor table, Tensor time) {
  const bool per_token = time.rank() == 4;
  const Tensor m = time + (per_token ? expand_dims(table, Axis(0)) : table);
  std::vector<Tensor> rows = split(m, Axis(-2), m.dim(-2));
  if (per_token) {
    for (Tensor& row : rows) {
      row = squeeze(row, Axis(2));
    }
  }
  return rows;
}

/// The first half of the batch; x itself if all samples share one entry.
Tensor first_half(Tensor x) { return x.dim(0) == 1 ? x : slice(x, Axis(0), 0, x.dim(0) / 2); }

std::optional<nn::LayerNorm> cross_norm(const nn::Params& params, const TransformerConfig& c) {
  if (!c.cross_attn_norm) {
    return std::nullopt;
  }
  return nn::LayerNorm(params / "norm2", c.dim(), c.eps);
}

}  // namespace

// The quoted names are the keys of the released checkpoints. norm1 and norm3 have no parameters.
Block::Block(const nn::Params& params, const TransformerConfig& c)
    : eps_(c.eps),
      modulation_(params.weight("scale_shift_table", {1, 6, c.dim()}, {"", "", ""},
                                nn::Init::normal(1.0 / std::sqrt(static_cast<double>(c.dim()))))),
      self_attention_(params / "attn1", c),
      cross_norm_(cross_norm(params, c)),
      cross_attention_(params / "attn2", c),
      ffn_up_(params / "ffn" / "net" / "0" / "proj", c.dim(), c.ffn_dim,
              {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp"}),
      ffn_down_(params / "ffn" / "net" / "2", c.ffn_dim, c.dim(),
                {.out_axis = "embed", .in_axis = "mlp"}) {}

Tensor Block::operator()(Tensor x, const Conditioning& given, const BlockTap& tap) const {
  Graph& graph = x.graph();
  const auto offer = [&](const char* name, Tensor value) {
    if (tap) {
      tap(name, value);
    }
    return value;
  };
  const mesh::Placement& place = given.place;
  x = named(place(x, kTokenAxes), "hidden_states");
  const std::vector<Tensor> m =
      modulation_rows(nn::as(modulation_, given.time.dtype()), given.time);
  {
    const Scope scope(graph, "attn1");
    const auto some = [&](Tensor whole) { return given.cfg_batch ? first_half(whole) : whole; };
    const Tensor in = some(x);
    Tensor y = self_attention_(nn::modulated_norm(in, some(m[0]), some(m[1]), eps_), given.rope,
                               given.attention, place, tap);
    y = offer("attn1", given.dropout(y, "attn1"));
    x = nn::add_gated(in, y, some(m[2]));
    x = given.cfg_batch ? concatenate({x, x}, Axis(0)) : x;
  }
  {
    const Scope scope(graph, "attn2");
    const Tensor y = offer("norm2", cross_norm_ ? (*cross_norm_)(x) : x);
    const CrossKeys keys =
        given.keys ? *given.keys : cross_keys(given.text, given.image, given.attention.precision);
    x = x +
        offer("attn2", given.dropout(cross_attention_(y, keys, given.attention, place), "attn2"));
  }
  {
    const Scope scope(graph, "ffn");
    const Tensor y = offer("ffn", mlp(nn::modulated_norm(x, m[3], m[4], eps_), given));
    x = nn::add_gated(x, y, m[5]);
  }
  return place(x, kTokenAxes);
}

Tensor Block::mlp(Tensor x, const Conditioning& given) const {
  const Precision precision = given.attention.precision;
  const Tensor up =
      given.place(ffn_up_(x, precision), {"activation_batch", "activation_length", "mlp"});
  const Tensor y = given.place.rounded(named(gelu_tanh(up), "ffn_activation"));
  return ffn_down_(given.dropout(y, "ffn"), precision);
}

}  // namespace kinema::wan
