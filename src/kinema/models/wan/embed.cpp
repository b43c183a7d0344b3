#include "kinema/models/wan/embed.h"

#include "kinema/core/error.h"

namespace kinema::wan {
namespace {

// Official Wan initialises the linear layers of the time and text embedders with N(0, 0.02).
const nn::Init kEmbedderInit = nn::Init::normal(0.02);

}  // namespace

std::array<int64_t, 3> patch_grid(Tensor video, const TransformerConfig& c) {
  check(video.rank() == 5 && video.dim(1) == c.in_channels,
        "[wan] hidden_states is {} but must be [b, {}, f, h, w]", to_string(video.shape()),
        c.in_channels);
  std::array<int64_t, 3> grid{};
  for (int64_t axis = 0; axis < 3; ++axis) {
    const int64_t size = video.dim(axis + 2);
    check(size > 0 && size % c.patch_size[axis] == 0,
          "[wan] hidden_states is {}: axis {} must be a multiple of the patch, {}",
          to_string(video.shape()), axis + 2, c.patch_size[axis]);
    grid[axis] = size / c.patch_size[axis];
    check(grid[axis] <= c.rope_max_seq_len,
          "[wan] hidden_states is {}: axis {} has {} patches, more than rope_max_seq_len, {}",
          to_string(video.shape()), axis + 2, grid[axis], c.rope_max_seq_len);
  }
  return grid;
}

Tensor unpatchify(Tensor tokens, std::array<int64_t, 3> grid, const TransformerConfig& c) {
  const auto [f, h, w] = grid;
  const auto [pf, ph, pw] = c.patch_size;
  const int64_t b = tokens.dim(0);
  Tensor x = reshape(tokens, {b, f, h, w, pf, ph, pw, c.out_channels});
  x = transpose(x, {0, 7, 1, 4, 2, 5, 3, 6});
  return reshape(x, {b, c.out_channels, f * pf, h * ph, w * pw});
}

// The norms' eps is torch's default, independent of the config's eps (diffusers FP32LayerNorm).
constexpr double kImageNormEps = 1e-5;

ImageEmbedder::ImageEmbedder(const nn::Params& params, const TransformerConfig& c)
    : image_dim_(c.image_dim),
      positions_(c.pos_embed_seq_len),
      position_(positions_ > 0 ? params.weight("pos_embed", {1, positions_, c.image_dim},
                                               {"", "", ""}, nn::Init::zeros())
                               : Tensor()),
      norm1_(params / "norm1", c.image_dim, kImageNormEps),
      up_(params / "ff" / "net" / "0" / "proj", c.image_dim, c.image_dim,
          {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp"}),
      down_(params / "ff" / "net" / "2", c.image_dim, c.dim(),
            {.out_axis = "embed", .in_axis = "mlp"}),
      norm2_(params / "norm2", c.dim(), kImageNormEps) {}

Tensor ImageEmbedder::operator()(Tensor image, Precision precision) const {
  check(image.rank() == 3 && image.dim(2) == image_dim_,
        "[wan] encoder_hidden_states_image is {} but must be [b, n, {}]", to_string(image.shape()),
        image_dim_);
  Tensor x = image;
  if (positions_ > 0) {
    check(x.dim(0) * x.dim(1) % positions_ == 0,
          "[wan] encoder_hidden_states_image is {} but this model has positions for {} tokens",
          to_string(x.shape()), positions_);
    x = reshape(x, {-1, positions_, image_dim_});
    x = x + nn::as(position_, x.dtype());
  }
  return norm2_(down_(gelu_erf(up_(norm1_(x), precision)), precision));
}

ConditionEmbedder::ConditionEmbedder(const nn::Params& params, const TransformerConfig& c)
    : freq_dim_(c.freq_dim),
      time_(params / "time_embedder", c.freq_dim, c.dim(), kEmbedderInit),
      time_proj_(params / "time_proj", c.dim(), 6 * c.dim(),
                 {.out_axis = "mlp", .in_axis = "embed", .bias_axis = "mlp"}),
      text_(params / "text_embedder", c.text_dim, c.dim(), kEmbedderInit) {
  if (c.image_dim > 0) {
    image_.emplace_back(params / "image_embedder", c);
  }
}

TimeEmbedding ConditionEmbedder::time(Tensor t, Precision precision) const {
  const Tensor sinusoid = nn::sinusoid(t, freq_dim_);
  const Tensor temb = time_(sinusoid, silu, precision);
  return {.sinusoid = sinusoid, .temb = temb, .proj = time_proj_(silu(temb), precision)};
}

Tensor ConditionEmbedder::text(Tensor states, Precision precision) const {
  return text_(states, gelu_tanh, precision);
}

}  // namespace kinema::wan
