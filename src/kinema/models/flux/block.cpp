#include "kinema/models/flux/block.h"

#include "kinema/nn/modulation.h"

namespace kinema::flux {
namespace {

constexpr double kNormEpsilon = 1e-6;

/// Initialised with zeros, as in adaLN-Zero (arXiv:2212.09748): blocks start as the identity.
nn::Linear modulation(const nn::Params& params, const TransformerConfig& c, int64_t rows) {
  return {params,
          c.dim(),
          rows * c.dim(),
          {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp", .init = nn::Init::zeros()}};
}

nn::Linear from_heads(const nn::Params& params, const TransformerConfig& c) {
  return {
      params, c.dim(), c.dim(), {.out_axis = "embed", .in_axis = "heads", .bias_axis = "embed"}};
}

/// Shifts, scales, gates: [b, 1, d] each.
std::vector<Tensor> rows_of(const nn::Linear& modulation, const Conditioning& given, int64_t rows) {
  const Tensor m = modulation(given.temb, given.attention.precision);
  return split(expand_dims(m, Axis(1)), Axis(2), rows);
}

void offer(const BlockTap& tap, const char* name, Tensor value) {
  if (tap) {
    tap(name, value);
  }
}

Tensor activated(Tensor up, const mesh::Placement& place) {
  up = place(up, {"activation_batch", "activation_length", "mlp"});
  return place.rounded(named(gelu_tanh(up), "ffn_activation"));
}

}  // namespace

FeedForward::FeedForward(const nn::Params& params, const TransformerConfig& c)
    : up_(params / "net" / "0" / "proj", c.dim(), c.mlp_dim(),
          {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp"}),
      down_(params / "net" / "2", c.mlp_dim(), c.dim(), {.out_axis = "embed", .in_axis = "mlp"}) {}

Tensor FeedForward::operator()(Tensor x, const Conditioning& given, const BlockTap& tap) const {
  const Precision precision = given.attention.precision;
  const Tensor y = activated(up_(x, precision), given.place);
  offer(tap, "gelu", y);
  return down_(y, precision);
}

// The quoted names are the keys of the released checkpoints in diffusers' naming. The layer norms
// have no parameters.
DoubleBlock::DoubleBlock(const nn::Params& params, const TransformerConfig& c)
    : modulation_(modulation(params / "norm1" / "linear", c, 6)),
      text_modulation_(modulation(params / "norm1_context" / "linear", c, 6)),
      project_(params / "attn", StreamProjections::kImage, c),
      text_project_(params / "attn", StreamProjections::kText, c),
      attend_(params / "attn"),
      out_(from_heads(params / "attn" / "to_out" / "0", c)),
      text_out_(from_heads(params / "attn" / "to_add_out", c)),
      feed_forward_(params / "ff", c),
      text_feed_forward_(params / "ff_context", c) {}

DoubleBlock::Streams DoubleBlock::operator()(Streams x, const Conditioning& given,
                                             const BlockTap& tap) const {
  Graph& graph = x.image.graph();
  const mesh::Placement& place = given.place;
  const Precision precision = given.attention.precision;
  x.image = named(place(x.image, kTokenAxes), "hidden_states");
  x.text = named(place(x.text, kTokenAxes), "hidden_states");
  const std::vector<Tensor> m = rows_of(modulation_, given, 6);
  const std::vector<Tensor> n = rows_of(text_modulation_, given, 6);
  {
    const Scope scope(graph, "attn");
    const Tensor image = nn::modulated_norm(x.image, m[0], m[1], kNormEpsilon);
    const Tensor text = nn::modulated_norm(x.text, n[0], n[1], kNormEpsilon);
    offer(tap, "norm1", image);
    offer(tap, "norm1_context", text);
    const Heads of_image = project_(image, precision, place);
    const Heads of_text = text_project_(text, precision, place);
    offer(tap, "norm_q", of_image.query);
    offer(tap, "norm_added_q", of_text.query);
    const Tensor y = attend_(joined(of_text, of_image), given.rope, given.attention);
    const int64_t t = x.text.dim(1);
    const Tensor to_image = out_(slice(y, Axis(1), t, x.image.dim(1)), precision);
    const Tensor to_text = text_out_(slice(y, Axis(1), 0, t), precision);
    offer(tap, "attn", to_image);
    offer(tap, "attn_context", to_text);
    x.image = nn::add_gated(x.image, to_image, m[2]);
    x.text = nn::add_gated(x.text, to_text, n[2]);
  }
  {
    const Scope scope(graph, "ff");
    const Tensor y =
        feed_forward_(nn::modulated_norm(x.image, m[3], m[4], kNormEpsilon), given, tap);
    offer(tap, "ff", y);
    x.image = place(nn::add_gated(x.image, y, m[5]), kTokenAxes);
  }
  const Scope scope(graph, "ff_context");
  const Tensor y = text_feed_forward_(nn::modulated_norm(x.text, n[3], n[4], kNormEpsilon), given);
  offer(tap, "ff_context", y);
  x.text = place(nn::add_gated(x.text, y, n[5]), kTokenAxes);
  return x;
}

SingleBlock::SingleBlock(const nn::Params& params, const TransformerConfig& c)
    : modulation_(modulation(params / "norm" / "linear", c, 3)),
      project_(params / "attn", StreamProjections::kSingle, c),
      attend_(params / "attn"),
      mlp_(params / "proj_mlp", c.dim(), c.mlp_dim(),
           {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp"}),
      out_(params / "proj_out", c.dim() + c.mlp_dim(), c.dim(),
           {.out_axis = "embed", .in_axis = "mlp", .bias_axis = "embed"}) {}

Tensor SingleBlock::operator()(Tensor h, const Conditioning& given, const BlockTap& tap) const {
  const Precision precision = given.attention.precision;
  h = named(given.place(h, kTokenAxes), "hidden_states");
  const std::vector<Tensor> m = rows_of(modulation_, given, 3);
  const Tensor x = nn::modulated_norm(h, m[0], m[1], kNormEpsilon);
  offer(tap, "norm", x);
  const Tensor activation = activated(mlp_(x, precision), given.place);
  offer(tap, "mlp", activation);
  const Tensor attended = attend_(project_(x, precision, given.place), given.rope, given.attention);
  offer(tap, "attn", attended);
  const Tensor y =
      named(out_(concatenate({attended, activation}, Axis(2)), precision), "lin2_hidden_states");
  offer(tap, "proj_out", y);
  return given.place(nn::add_gated(h, y, m[2]), kTokenAxes);
}

}  // namespace kinema::flux
