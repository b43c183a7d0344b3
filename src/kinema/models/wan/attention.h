#pragma once

#include <optional>
#include <vector>

#include "kinema/mesh/placement.h"
#include "kinema/models/wan/config.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/rope.h"

namespace kinema::wan {

/// Called with an intermediate value and its name within the block.
using BlockTap = std::function<void(const char* name, Tensor value)>;

/// Query, key and value projections with Wan's norms of queries and keys: RMS over all heads
/// jointly, before they are divided into heads.
class HeadProjections {
 public:
  HeadProjections(const nn::Params& params, const TransformerConfig& config);

  /// [b, s, d] -> [b, s, n, d / n], f32, times the scale of the scores unless attention applies it
  /// (`with_scale`).
  Tensor query(Tensor x, Precision precision, const mesh::Placement& place,
               const BlockTap& tap) const;
  /// [b, t, d] -> [b, t, n, d / n], f32.
  Tensor key(Tensor x, Precision precision, const mesh::Placement& place) const;
  /// Both rotated, in x's dtype.
  Tensor rotated_query(Tensor x, const nn::Rope& rope, Precision precision) const;
  Tensor rotated_key(Tensor x, const nn::Rope& rope, Precision precision) const;
  /// [b, t, d] -> [b, t, n, d / n] in x's dtype.
  Tensor value(Tensor x, Precision precision) const;
  /// [b, s, n, d / n] -> [b, s, d], through the output projection.
  Tensor output(Tensor y, Precision precision) const;
  Tensor heads(Tensor x) const;
  /// The attention options for these queries. If attention is quantized, scores are scaled
  /// afterwards, because the codes depend on the magnitude.
  nn::AttentionOptions with_scale(nn::AttentionOptions options) const;

 private:
  Tensor rotated(Tensor x, const nn::RmsNorm& norm, double scale, const nn::Rope& rope) const;

  int64_t heads_;
  double scale_;  // 1 / sqrt(head width)
  std::optional<nn::QuantizedProduct> quantized_;
  nn::Linear to_q_;
  nn::Linear to_k_;
  nn::Linear to_v_;
  nn::Linear to_out_;
  nn::RmsNorm norm_q_;
  nn::RmsNorm norm_k_;
};

/// Attention of the video tokens among themselves, with rotary positions.
class SelfAttention {
 public:
  SelfAttention(const nn::Params& params, const TransformerConfig& config)
      : project_(params, config) {}

  /// x [b, s, d] -> [b, s, d].
  Tensor operator()(Tensor x, const nn::Rope& rope, const nn::AttentionOptions& options,
                    const mesh::Placement& place, const BlockTap& tap) const;

 private:
  HeadProjections project_;
};

/// The keys and values of cross-attention to text and image: they depend on neither the video nor
/// the timestep.
struct CrossKeys {
  Tensor key;               // [b, t, heads, head width]
  Tensor value;             // the same shape
  Tensor image_key = {};    // [b, n, heads, head width], or empty
  Tensor image_value = {};  // the same shape
};

/// Attention of the video tokens to the text and, in Wan 2.1 image-to-video, to the image through
/// separate keys and values; the two results are added before the output projection.
class CrossAttention {
 public:
  CrossAttention(const nn::Params& params, const TransformerConfig& config);

  /// text [b, t, d], image [b, n, d] or empty -> keys and values in the text's dtype.
  CrossKeys keys(Tensor text, Tensor image, Precision precision) const;
  /// x [b, s, d] -> [b, s, d].
  Tensor operator()(Tensor x, const CrossKeys& keys, const nn::AttentionOptions& options,
                    const mesh::Placement& place) const;

 private:
  struct ImageKeys {
    nn::Linear add_k;
    nn::Linear add_v;
    nn::RmsNorm norm;
  };

  HeadProjections project_;
  std::vector<ImageKeys> image_;  // one or none
};

}  // namespace kinema::wan
