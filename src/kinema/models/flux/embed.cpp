#include "kinema/models/flux/embed.h"

#include "kinema/core/error.h"

namespace kinema::flux {
namespace {

constexpr int64_t kPatch = TransformerConfig::kPatch;
constexpr int64_t kSinusoid = 256;          // channels
constexpr double kGuidanceFactor = 1000.0;  // guidance is embedded like a timestep

const nn::Init kEmbedderInit = nn::Init::normal(0.02);

std::optional<nn::EmbeddingMlp> guidance_embedder(const nn::Params& params,
                                                  const TransformerConfig& c) {
  if (!c.guidance_embeds) {
    return std::nullopt;
  }
  return nn::EmbeddingMlp(params / "guidance_embedder", kSinusoid, c.dim(), kEmbedderInit);
}

}  // namespace

Tensor pack(Tensor latents) {
  const Shape& shape = latents.shape();
  check(shape.rank() == 4 && latents.dim(2) % kPatch == 0 && latents.dim(3) % kPatch == 0,
        "[flux] latents are {} but must be [b, c, h, w] with even h and w", to_string(shape));
  const int64_t b = latents.dim(0);
  const int64_t c = latents.dim(1);
  const int64_t h = latents.dim(2) / kPatch;
  const int64_t w = latents.dim(3) / kPatch;
  const Tensor x = transpose(reshape(latents, {b, c, h, kPatch, w, kPatch}), {0, 2, 4, 1, 3, 5});
  return reshape(x, {b, h * w, c * kPatch * kPatch});
}

Tensor unpack(Tensor tokens, int64_t h, int64_t w) {
  const int64_t b = tokens.dim(0);
  const int64_t c = tokens.dim(2) / (kPatch * kPatch);
  const Tensor x = transpose(reshape(tokens, {b, h / kPatch, w / kPatch, c, kPatch, kPatch}),
                             {0, 3, 1, 4, 2, 5});
  return reshape(x, {b, c, h, w});
}

TimeTextEmbedding::TimeTextEmbedding(const nn::Params& params, const TransformerConfig& c)
    : time_(params / "timestep_embedder", kSinusoid, c.dim(), kEmbedderInit),
      guidance_(guidance_embedder(params, c)),
      text_(params / "text_embedder", c.pooled_projection_dim, c.dim(), kEmbedderInit) {}

TimeTextEmbedding::Result TimeTextEmbedding::operator()(Tensor timestep, Tensor guidance,
                                                        Tensor pooled, Precision precision) const {
  Result out;
  out.time_sinusoid = nn::sinusoid(timestep, kSinusoid);
  out.time = time_(out.time_sinusoid, silu, precision);
  out.text = text_(nn::as(pooled, DType::F32), silu, precision);
  if (guidance_) {
    out.guidance_sinusoid = nn::sinusoid(nn::as(guidance, DType::F32) * kGuidanceFactor, kSinusoid);
    out.guidance = (*guidance_)(out.guidance_sinusoid, silu, precision);
  }
  out.sum = (out.guidance ? out.time + out.guidance : out.time) + out.text;
  return out;
}

}  // namespace kinema::flux
