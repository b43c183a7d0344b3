#include "kinema/training/flops.h"

#include "kinema/core/error.h"

namespace kinema::training {

double training_tflops(const wan::TransformerConfig& config, const Dims& latents,
                       int64_t text_tokens, double batch) {
  check(latents.size() == 4, "[flops] latents {} are not [c, f, h, w]", to_string(latents));
  const auto& patch = config.patch_size;
  const int64_t tokens = latents[1] * latents[2] * latents[3] / (patch[0] * patch[1] * patch[2]);
  const auto s = static_cast<double>(tokens);
  const auto d = static_cast<double>(config.dim());
  const auto ffn = static_cast<double>(config.ffn_dim);
  const auto text = static_cast<double>(text_tokens);

  const double self_projections = 3 * 2 * s * d * d;
  const double self_attention = 2 * 2 * s * s * d;
  const double cross_projections = 3 * 2 * text * d * d + 2 * s * d * d;
  const double cross_attention = 2 * 2 * s * text * d;
  const double outputs = 2 * 2 * s * d * d;
  const double feed_forward = 2 * 2 * s * d * ffn;
  const double block = self_projections + self_attention + cross_projections + cross_attention +
                       outputs + feed_forward;
  return 3 * block * static_cast<double>(config.num_layers) * batch / 1e12;
}

FlopRate flop_rate(double tera_per_second) {
  if (tera_per_second >= 1 || tera_per_second <= 0) {
    return {tera_per_second, "TFLOP/s"};
  }
  return tera_per_second >= 1e-3 ? FlopRate{tera_per_second * 1e3, "GFLOP/s"}
                                 : FlopRate{tera_per_second * 1e6, "MFLOP/s"};
}

}  // namespace kinema::training
