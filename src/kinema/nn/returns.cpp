#include "kinema/nn/returns.h"

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"

namespace kinema::nn {
namespace {

/// [n, t] -> [t, n] and back.
Tensor other_axis_first(Tensor x) { return transpose(x, {1, 0}); }

}  // namespace

Tensor lambda_returns(const Trajectory& x, double discount, double lambda) {
  for (const Tensor given : {x.last, x.terminal, x.reward}) {
    check(given.rank() == 2 && given.shape() == x.value.shape(),
          "[returns] tensors of a trajectory are {} and {} but must be of one shape [n, t]",
          to_string(given.shape()), to_string(x.value.shape()));
  }
  const int64_t length = x.value.dim(1) - 1;
  check(length > 0, "[returns] a trajectory has {} states but must have 2", length + 1);
  const auto after_first = [&](Tensor all) { return slice(all, Axis(1), 1, length); };
  const Tensor live = (1.0 - after_first(x.terminal)) * discount;
  const Tensor continues = (1.0 - after_first(x.last)) * lambda;
  const Tensor value = after_first(x.value);
  const Tensor step = after_first(x.reward) + (1.0 - continues) * live * value;
  const Tensor factor = live * continues;
  const Tensor end = squeeze(slice(x.value, Axis(1), length, 1), Axis(1));
  const ScanResult returns =
      scan({end}, {other_axis_first(step), other_axis_first(factor)},
           {.length = length, .reverse = true},
           [](std::span<const Tensor> later, std::span<const Tensor> now) -> ScanResult {
             const Tensor here = now[0] + now[1] * later[0];
             return {.carry = {here}, .ys = {here}};
           });
  return other_axis_first(returns.ys[0]);
}

Tensor cumulative_product(Tensor x) {
  check(x.rank() == 2, "[returns] x is {} but must be [n, t]", to_string(x.shape()));
  const Tensor by_time = other_axis_first(x);
  const Tensor ones = ones_like(squeeze(slice(by_time, Axis(0), 0, 1), Axis(0)));
  const ScanResult products =
      scan({ones}, {by_time}, {.length = x.dim(1)},
           [](std::span<const Tensor> before, std::span<const Tensor> now) -> ScanResult {
             const Tensor here = before[0] * now[0];
             return {.carry = {here}, .ys = {here}};
           });
  return other_axis_first(products.ys[0]);
}

}  // namespace kinema::nn
