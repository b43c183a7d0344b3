#include "kinema/nn/patch_embedding.h"

#include "kinema/nn/linear.h"

namespace kinema::nn {

PatchEmbedding::PatchEmbedding(const Params& params, int64_t channels, int64_t width,
                               const std::array<int64_t, 3>& patch)
    : patch_(patch),
      weight_(params.weight("weight", {width, channels, patch[0], patch[1], patch[2]},
                            {"conv_out", "", "", "", ""}, Init::xavier())),
      bias_(params.weight("bias", {width}, {"conv_out"}, Init::zeros())),
      quantized_(params.quantized()) {}

Tensor PatchEmbedding::operator()(Tensor video, Precision precision) const {
  const auto [pf, ph, pw] = patch_;
  const int64_t b = video.dim(0);
  const int64_t c = video.dim(1);
  const int64_t f = video.dim(2) / pf;
  const int64_t h = video.dim(3) / ph;
  const int64_t w = video.dim(4) / pw;
  Tensor x = reshape(video, {b, c, f, pf, h, ph, w, pw});
  x = transpose(x, {0, 2, 4, 6, 1, 3, 5, 7});
  x = reshape(x, {b, f * h * w, c * pf * ph * pw});
  const Tensor kernel = reshape(weight_, {weight_.dim(0), -1});
  if (quantized_) {
    return quantized_patches(x, as(kernel, x.dtype()), *quantized_, precision) +
           as(bias_, x.dtype());
  }
  return linear(x, kernel, bias_, precision);
}

}  // namespace kinema::nn
