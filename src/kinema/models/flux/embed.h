#pragma once

#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/models/flux/config.h"
#include "kinema/nn/embedding.h"
#include "kinema/nn/params.h"

namespace kinema::flux {

/// Latents [b, c, h, w], h and w even, as tokens [b, h/2 w/2, 4 c] in row-major order; a token's
/// channels are ordered (c, row, column).
Tensor pack(Tensor latents);
/// The reverse, for latents of h x w.
Tensor unpack(Tensor tokens, int64_t h, int64_t w);

/// The embedding of timestep, guidance and pooled text for all blocks, under the names of
/// `time_text_embed`. In f32: timesteps and guidance of up to 10,000 lose digits in bf16.
class TimeTextEmbedding {
 public:
  TimeTextEmbedding(const nn::Params& params, const TransformerConfig& config);

  struct Result {
    Tensor time_sinusoid;      // f32 [b, 256]
    Tensor guidance_sinusoid;  // the same, or empty
    Tensor time;               // f32 [b, d]
    Tensor guidance;           // f32 [b, d], or empty
    Tensor text;               // f32 [b, d]
    Tensor sum;                // of the three
  };
  /// timestep [b] in 0..1000, guidance [b] as users set it (3.5) or empty, pooled [b, p].
  Result operator()(Tensor timestep, Tensor guidance, Tensor pooled, Precision precision) const;

 private:
  nn::EmbeddingMlp time_;
  std::optional<nn::EmbeddingMlp> guidance_;
  nn::EmbeddingMlp text_;
};

}  // namespace kinema::flux
