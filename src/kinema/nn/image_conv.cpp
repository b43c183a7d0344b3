#include "kinema/nn/image_conv.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/nn/dense.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {
namespace {

void check_image(const char* what, Tensor x) {
  check(x.rank() == 4, "[{}] x is {} but must be [b, rows, columns, c]", what,
        to_string(x.shape()));
}

/// Zeros before and after an axis of `n` pixels, the odd one after.
std::pair<int64_t, int64_t> same_padding(int64_t n, int64_t size, int64_t stride) {
  const int64_t results = (n + stride - 1) / stride;
  const int64_t zeros = std::max<int64_t>((results - 1) * stride + size - n, 0);
  return {zeros / 2, zeros - zeros / 2};
}

}  // namespace

ImageConv::ImageConv(const Params& params, int64_t in, int64_t out, int64_t size, Resize resize,
                     double scale)
    : size_(size),
      resize_(resize),
      kernel_(params.weight("kernel", {size, size, in, out}, {"", "", "", ""},
                            truncated_normal_in({size, size, in, out}, scale))),
      bias_(params.weight("bias", {out}, {""}, Init::zeros())) {}

Tensor ImageConv::operator()(Tensor x, Precision precision) const {
  check_image("conv", x);
  const int64_t stride = resize_ == Resize::DOWN ? 2 : 1;
  ConvolutionAttrs how{.strides = {stride, stride}, .precision = precision};
  for (const int64_t axis : {1, 2}) {
    how.pad.push_back(same_padding(x.dim(axis), size_, stride));
  }
  if (resize_ == Resize::UP) {
    how.lhs_dilation = {2, 2};
    for (auto& [before, after] : how.pad) {
      before += 1;  // the even position before the first pixel
    }
  }
  const Tensor y =
      convolution(transpose(x, {0, 3, 1, 2}), transpose(as(kernel_, x.dtype()), {3, 2, 0, 1}), how);
  const Tensor sums = widened(transpose(y, {0, 2, 3, 1}));
  return as(sums + as(bias_, sums.dtype()), x.dtype());
}

Tensor max_pool(Tensor x) {
  check_image("max_pool", x);
  const int64_t rows = x.dim(1) / 2;
  const int64_t columns = x.dim(2) / 2;
  check(x.dim(1) == 2 * rows && x.dim(2) == 2 * columns,
        "[max_pool] x is {} but rows and columns must be even", to_string(x.shape()));
  return max(reshape(x, {x.dim(0), rows, 2, columns, 2, x.dim(3)}), {2, 4});
}

Tensor repeat_pixels(Tensor x) {
  check_image("repeat_pixels", x);
  const Dims& d = x.shape().dims;
  const Tensor spread = broadcast_in_dim(x, {d[0], d[1], 2, d[2], 2, d[3]}, {0, 1, 3, 5});
  return reshape(spread, {d[0], 2 * d[1], 2 * d[2], d[3]});
}

}  // namespace kinema::nn
