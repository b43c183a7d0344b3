#pragma once

#include <array>
#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/models/wan/config.h"
#include "kinema/nn/embedding.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/params.h"

namespace kinema::wan {

/// The grid of patches (frames, rows, columns) of a video [b, c, f, h, w]. Throws an Error if a
/// size is not a multiple of the patch.
std::array<int64_t, 3> patch_grid(Tensor video, const TransformerConfig& config);

/// Tokens [b, s, pf ph pw c], channel fastest, back to [b, c, f, h, w].
Tensor unpatchify(Tensor tokens, std::array<int64_t, 3> grid, const TransformerConfig& config);

/// CLIP tokens to context tokens (Wan 2.1 image-to-video), with a learned position embedding for
/// the two images of first-last-frame models.
class ImageEmbedder {
 public:
  ImageEmbedder(const nn::Params& params, const TransformerConfig& config);

  /// [b, n, image_dim] -> [b, n, d] in the input's dtype; with positions also from [2 b, n / 2,
  /// image_dim].
  Tensor operator()(Tensor image, Precision precision) const;

 private:
  int64_t image_dim_;
  int64_t positions_;
  Tensor position_;  // [1, positions, image_dim] or empty
  nn::LayerNorm norm1_;
  nn::Linear up_;
  nn::Linear down_;
  nn::LayerNorm norm2_;
};

/// The timestep embedding: `temb` for the head, `proj` for the blocks, both f32.
struct TimeEmbedding {
  Tensor sinusoid;  // [b(, s), freq_dim]
  Tensor temb;      // [b(, s), d]
  Tensor proj;      // [b(, s), 6 d]
};

/// The embeddings of timestep, text and image for the blocks.
class ConditionEmbedder {
 public:
  ConditionEmbedder(const nn::Params& params, const TransformerConfig& config);

  /// t [b] or [b, s]. In f32: modulation multiplies every token.
  TimeEmbedding time(Tensor t, Precision precision) const;
  /// [b, t, text_dim] -> [b, t, d]; padding is not masked, as in the reference.
  Tensor text(Tensor states, Precision precision) const;
  Tensor image(Tensor states, Precision precision) const { return image_.at(0)(states, precision); }

 private:
  int64_t freq_dim_;
  nn::EmbeddingMlp time_;
  nn::Linear time_proj_;
  nn::EmbeddingMlp text_;
  std::vector<ImageEmbedder> image_;  // one, or none
};

}  // namespace kinema::wan
