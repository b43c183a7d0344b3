#include "kinema/training/flops.h"

#include "kinema/core/error.h"

namespace kinema::training {

double training_tflops(const networks::Network& network, const Dims& latents, int64_t text_tokens,
                       double batch, Trained trained) {
  check(latents.size() == 4, "[flops] latents {} are not [c, f, h, w]", to_string(latents));
  // A backward pass uses each weight in two products: output gradients times the weight give input
  // gradients, and output gradients times inputs give the weight's gradient. Adapters are
  // negligible.
  const double passes = trained == Trained::NETWORK ? 3 : 2;
  return passes * network->forward_flops(latents, text_tokens) * batch / 1e12;
}

FlopRate flop_rate(double tera_per_second) {
  if (tera_per_second >= 1 || tera_per_second <= 0) {
    return {tera_per_second, "TFLOP/s"};
  }
  return tera_per_second >= 1e-3 ? FlopRate{tera_per_second * 1e3, "GFLOP/s"}
                                 : FlopRate{tera_per_second * 1e6, "MFLOP/s"};
}

}  // namespace kinema::training
