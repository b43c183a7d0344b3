#include "kinema/training/flops.h"

#include "kinema/core/error.h"

namespace kinema::training {

double training_tflops(const networks::Network& network, const Dims& latents, int64_t text_tokens,
                       double batch) {
  check(latents.size() == 4, "[flops] latents {} are not [c, f, h, w]", to_string(latents));
  return 3 * network->forward_flops(latents, text_tokens) * batch / 1e12;
}

FlopRate flop_rate(double tera_per_second) {
  if (tera_per_second >= 1 || tera_per_second <= 0) {
    return {tera_per_second, "TFLOP/s"};
  }
  return tera_per_second >= 1e-3 ? FlopRate{tera_per_second * 1e3, "GFLOP/s"}
                                 : FlopRate{tera_per_second * 1e6, "MFLOP/s"};
}

}  // namespace kinema::training
