#include "kinema/models/zimage/embed.h"

#include "kinema/core/error.h"
#include "kinema/nn/embedding.h"

namespace kinema::zimage {
namespace {

constexpr int64_t kPatch = TransformerConfig::kPatch;
constexpr int64_t kFill = TransformerConfig::kFill;
constexpr int64_t kSinusoid = 256;  // channels
constexpr int64_t kTimeDim = 1024;  // between the two layers of the time embedding

const nn::Init kEmbedderInit = nn::Init::normal(0.02);

Tensor number(Graph& graph, int64_t value) {
  return constant(graph, static_cast<double>(value), Shape{DType::S32, {}});
}

/// Three columns [..., s, 1] as positions.
Tensor positions(Tensor frame, Tensor row, Tensor column) {
  return concatenate({frame, row, column}, Axis(2));
}

}  // namespace

Tensor pack(Tensor latents) {
  const Shape& shape = latents.shape();
  check(shape.rank() == 4 && latents.dim(2) % kPatch == 0 && latents.dim(3) % kPatch == 0,
        "[zimage] latents are {} but must be [b, c, h, w] with even h and w", to_string(shape));
  const int64_t b = latents.dim(0);
  const int64_t c = latents.dim(1);
  const int64_t h = latents.dim(2) / kPatch;
  const int64_t w = latents.dim(3) / kPatch;
  const Tensor x = transpose(reshape(latents, {b, c, h, kPatch, w, kPatch}), {0, 2, 4, 3, 5, 1});
  return reshape(x, {b, h * w, c * kPatch * kPatch});
}

Tensor unpack(Tensor tokens, int64_t h, int64_t w) {
  const int64_t b = tokens.dim(0);
  const int64_t c = tokens.dim(2) / (kPatch * kPatch);
  const Tensor x = transpose(reshape(tokens, {b, h / kPatch, w / kPatch, kPatch, kPatch, c}),
                             {0, 5, 1, 3, 2, 4});
  return reshape(x, {b, c, h, w});
}

int64_t filled(int64_t tokens) { return (tokens + kFill - 1) / kFill * kFill; }

Tensor fill_up(Tensor x, Tensor pad_token) {
  const int64_t missing = filled(x.dim(1)) - x.dim(1);
  if (missing == 0) {
    return x;
  }
  const Tensor rows = broadcast_to(nn::as(pad_token, x.dtype()), {x.dim(0), missing, x.dim(2)});
  return concatenate({x, rows}, Axis(1));
}

Tensor text_lengths(Tensor text) {
  const Tensor is_token = any(compare(text, Comparison::NE, 0.0), {2});
  const Tensor ends = iota(text.graph(), {DType::S32, {text.dim(0), text.dim(1)}}, Axis(1)) +
                      number(text.graph(), 1);
  return max(select(is_token, ends, zeros_like(ends)), {1});
}

Tensor filled(Tensor lengths) {
  Graph& graph = lengths.graph();
  const Tensor fill = number(graph, kFill);
  return maximum((lengths + number(graph, kFill - 1)) / fill * fill, fill);
}

Tensor is_before(Tensor lengths, int64_t t) {
  const int64_t b = lengths.dim(0);
  return compare(iota(lengths.graph(), {DType::S32, {b, t}}, Axis(1)), Comparison::LT,
                 broadcast_to(reshape(lengths, {b, 1}), {b, t}));
}

TimeEmbedding::TimeEmbedding(const nn::Params& params, const TransformerConfig& c)
    : scale_(c.t_scale),
      up_(params / "mlp" / "0", kSinusoid, kTimeDim,
          {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp", .init = kEmbedderInit}),
      down_(params / "mlp" / "2", kTimeDim, c.modulation_dim(),
            {.out_axis = "embed", .in_axis = "mlp", .init = kEmbedderInit}) {}

TimeEmbedding::Result TimeEmbedding::operator()(Tensor t, Precision precision) const {
  Result out;
  out.sinusoid = nn::sinusoid(nn::as(t, DType::F32) * scale_, kSinusoid);
  out.time = down_(silu(up_(out.sinusoid, precision)), precision);
  return out;
}

CaptionEmbedding::CaptionEmbedding(const nn::Params& params, const TransformerConfig& c)
    : norm_(params / "0", c.cap_feat_dim, c.norm_eps),
      linear_(params / "1", c.cap_feat_dim, c.dim, {.out_axis = "mlp", .bias_axis = "mlp"}) {}

Tensor CaptionEmbedding::operator()(Tensor text, DType dtype, Precision precision) const {
  return linear_(nn::as(norm_(text), dtype), precision);
}

Tensor text_positions(Graph& graph, int64_t t) {
  const Tensor frame = iota(graph, {DType::S32, {1, t, 1}}, Axis(1)) + number(graph, 1);
  return positions(frame, zeros_like(frame), zeros_like(frame));
}

Tensor image_positions(Tensor lengths, int64_t rows, int64_t columns) {
  Graph& graph = lengths.graph();
  const int64_t b = lengths.dim(0);
  const int64_t n = rows * columns;
  const auto along = [&](int64_t axis) {
    const Tensor each = iota(graph, {DType::S32, {b, rows, columns}}, Axis(axis));
    return reshape(each, {b, n, 1});
  };
  const Tensor frame = broadcast_to(reshape(lengths + number(graph, 1), {b, 1, 1}), {b, n, 1});
  return pad(positions(frame, along(1), along(2)), Axis(1), 0, filled(n) - n);
}

nn::Rope rope_of(Tensor positions, const TransformerConfig& c) {
  std::vector<Tensor> cosines;
  std::vector<Tensor> sines;
  for (size_t axis = 0; axis < c.axes_dims.size(); ++axis) {
    if (c.axes_dims[axis] == 0) {
      continue;
    }
    const Tensor at = squeeze(slice(positions, Axis(2), static_cast<int64_t>(axis), 1), Axis(2));
    const nn::Rope table =
        nn::rope_of_axis(positions.graph(), c.axes_lens[axis], c.axes_dims[axis], c.rope_theta);
    cosines.push_back(take(table.cos, at));
    sines.push_back(take(table.sin, at));
  }
  const auto joined = [](const std::vector<Tensor>& parts) {
    return expand_dims(concatenate(parts, Axis(2)), Axis(2));
  };
  return {.cos = joined(cosines), .sin = joined(sines)};
}

}  // namespace kinema::zimage
