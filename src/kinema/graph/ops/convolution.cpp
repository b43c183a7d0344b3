#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/precision.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

// One spatial axis: sizes after dilation, named as in the shape rule below.
struct Spatial {
  int64_t x, w, y;  // as given
  int64_t stride, low, high;
  int64_t x_dilation, w_dilation;

  int64_t dilated_x() const { return x == 0 ? 0 : (x - 1) * x_dilation + 1; }
  int64_t dilated_w() const { return (w - 1) * w_dilation + 1; }
  int64_t dilated_y() const { return y == 0 ? 0 : (y - 1) * stride + 1; }
};

int64_t spatial_rank(const Node& node) { return node.shape(0).rank() - 2; }

Spatial spatial(const Node& node, int64_t i) {
  const auto& attrs = node.get<ConvolutionAttrs>();
  const auto at = static_cast<size_t>(i);
  Spatial out{node.shape(0).dims[at + 2], node.shape(1).dims[at + 2], 0,
              attrs.strides[at],          attrs.pad[at].first,        attrs.pad[at].second,
              attrs.lhs_dilation[at],     attrs.rhs_dilation[at]};
  const int64_t room = out.dilated_x() + out.low + out.high - out.dilated_w();
  out.y = room < 0 ? 0 : room / out.stride + 1;
  return out;
}

void check_attrs(const Node& node) {
  const auto& attrs = node.get<ConvolutionAttrs>();
  const Shape& x = node.shape(0);
  const Shape& w = node.shape(1);
  check_same_dtype("convolution", x, w);
  check(is_float(x.dtype) && x.rank() >= 2 && w.rank() == x.rank(),
        "[convolution] {} and {}: floating-point [b, c, spatial...] and [o, c, spatial...] needed",
        to_string(x), to_string(w));
  const auto n = static_cast<size_t>(x.rank() - 2);
  check(attrs.strides.size() == n && attrs.pad.size() == n && attrs.lhs_dilation.size() == n &&
            attrs.rhs_dilation.size() == n,
        "[convolution] {} has {} spatial axes: {} strides, {} paddings, {} and {} dilations given",
        to_string(x), n, attrs.strides.size(), attrs.pad.size(), attrs.lhs_dilation.size(),
        attrs.rhs_dilation.size());
  for (size_t i = 0; i < n; ++i) {
    check(attrs.strides[i] > 0 && attrs.lhs_dilation[i] > 0 && attrs.rhs_dilation[i] > 0 &&
              w.dims[i + 2] > 0,
          "[convolution] strides, dilations and kernel sizes of {} must be positive", to_string(w));
  }
  const int64_t g = attrs.groups;
  check(g > 0 && x.dims[1] == w.dims[1] * g && w.dims[0] % g == 0,
        "[convolution] {} channels of {} do not fit the kernel {} with {} groups", x.dims[1],
        to_string(x), to_string(w), g);
}

// w [o, c / g, ...] as the kernel of the gradient, [c, o / g, ...], mirrored in space.
Tensor mirrored_kernel(Tensor w, int64_t groups) {
  Dims dims = w.shape().dims;
  const int64_t out_channels = dims[0] / groups;
  const int64_t in_channels = dims[1];
  const std::vector<int64_t> space(dims.begin() + 2, dims.end());
  Dims grouped{groups, out_channels, in_channels};
  grouped.insert(grouped.end(), space.begin(), space.end());
  std::vector<int64_t> order{0, 2, 1};
  for (size_t i = 0; i < space.size(); ++i) {
    order.push_back(static_cast<int64_t>(i) + 3);
  }
  dims[0] = groups * in_channels;
  dims[1] = out_channels;
  Tensor back = reshape(transpose(reshape(w, grouped), order), dims);
  for (int64_t axis = 2; axis < w.rank(); ++axis) {
    if (w.dim(axis) > 1) {
      back = reverse(back, Axis(axis));
    }
  }
  return back;
}

// Exchanges batch and channels.
Tensor exchange(Tensor x) {
  std::vector<int64_t> order{1, 0};
  for (int64_t axis = 2; axis < x.rank(); ++axis) {
    order.push_back(axis);
  }
  return transpose(x, order);
}

// x [b, g c, ...] -> [c, g b, ...]: the channels of a group become the batch, so that one grouped
// convolution with dy contracts over b for each group.
Tensor channels_as_batch(Tensor x, int64_t groups) {
  const Dims dims = x.shape().dims;
  Dims split{dims[0], groups, dims[1] / groups};
  Dims joined{dims[1] / groups, groups * dims[0]};
  std::vector<int64_t> order{2, 1, 0};
  for (size_t i = 2; i < dims.size(); ++i) {
    split.push_back(dims[i]);
    joined.push_back(dims[i]);
    order.push_back(static_cast<int64_t>(i) + 1);
  }
  return reshape(transpose(reshape(x, split), order), joined);
}

// dx = the mirrored kernel convolved with dy, dilated by `stride`. For every spatial axis the
// padding makes the result exactly as long as x:
//   low' = W - 1 - low,  high' = X + W - 1 - Y - low',  capitals for dilated sizes.
Tensor input_gradient(const Node& node, Tensor dy) {
  const auto& attrs = node.get<ConvolutionAttrs>();
  ConvolutionAttrs back{.groups = attrs.groups, .precision = attrs.precision};
  for (int64_t i = 0; i < spatial_rank(node); ++i) {
    const Spatial s = spatial(node, i);
    const int64_t low = s.dilated_w() - 1 - s.low;
    back.strides.push_back(s.x_dilation);
    back.pad.emplace_back(low, s.dilated_x() + s.dilated_w() - 1 - s.dilated_y() - low);
    back.lhs_dilation.push_back(s.stride);
    back.rhs_dilation.push_back(s.w_dilation);
  }
  return convolution(dy, mirrored_kernel(node.input(1), attrs.groups), back);
}

// dw = x convolved with dy as the kernel, contracting over the batch:
//   low' = low,  high' = Y - X + W - 1 - low.
Tensor kernel_gradient(const Node& node, Tensor dy) {
  const auto& attrs = node.get<ConvolutionAttrs>();
  ConvolutionAttrs back{.groups = attrs.groups, .precision = attrs.precision};
  for (int64_t i = 0; i < spatial_rank(node); ++i) {
    const Spatial s = spatial(node, i);
    back.strides.push_back(s.w_dilation);
    back.pad.emplace_back(s.low, s.dilated_y() - s.dilated_x() + s.dilated_w() - 1 - s.low);
    back.lhs_dilation.push_back(s.x_dilation);
    back.rhs_dilation.push_back(s.stride);
  }
  const Tensor x = channels_as_batch(node.input(0), attrs.groups);
  return exchange(convolution(x, exchange(dy), back));
}

}  // namespace

// y[b, o, p] = sum over c, k of x[b, c, p stride + k - low] w[o, c, k]  (cross-correlation)
// dx = mirrored w * dy,  dw = x * dy over the batch (above)
const Op kConvolution{
    .name = "convolution",
    .infer = [](const Node& node) -> Shape {
      check_attrs(node);
      Shape out{node.shape(0).dtype, {node.shape(0).dims[0], node.shape(1).dims[0]}};
      for (int64_t i = 0; i < spatial_rank(node); ++i) {
        out.dims.push_back(spatial(node, i).y);
      }
      return out;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {input_gradient(y.node(), dy), kernel_gradient(y.node(), dy)};
    },
    .mlir = "stablehlo.convolution",
    .attributes = [](const Node& node) -> std::string {
      const auto& attrs = node.get<ConvolutionAttrs>();
      std::string axes;
      std::string pad;
      for (size_t i = 0; i < attrs.pad.size(); ++i) {
        axes += fmt::format(", {}", i);
        pad +=
            fmt::format("{}[{}, {}]", i == 0 ? "" : ", ", attrs.pad[i].first, attrs.pad[i].second);
      }
      return fmt::format(
          "batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f{0}]x[o, i{0}]->"
          "[b, f{0}]>, feature_group_count = {1} : i64, lhs_dilation = {2}, padding = dense<{3}> : "
          "tensor<{4}x2xi64>, {5}, rhs_dilation = {6}, window_strides = {7}",
          axes, attrs.groups, i64_array(attrs.lhs_dilation),
          attrs.pad.empty() ? "" : "[" + pad + "]", attrs.pad.size(),
          precision_attribute(attrs.precision), i64_array(attrs.rhs_dilation),
          i64_array(attrs.strides));
    },
};

std::span<const Op* const> convolution_ops() {
  static constexpr const Op* kOps[] = {&kConvolution};
  return kOps;
}

Tensor convolution(Tensor x, Tensor w, ConvolutionAttrs attrs) {
  if (attrs.lhs_dilation.empty()) {
    attrs.lhs_dilation.assign(attrs.strides.size(), 1);
  }
  if (attrs.rhs_dilation.empty()) {
    attrs.rhs_dilation.assign(attrs.strides.size(), 1);
  }
  return apply(kConvolution, {x, w}, std::move(attrs));
}

}  // namespace kinema
