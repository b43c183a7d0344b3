#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/kernels/cpu/convolution.h"
#include "kinema/kernels/cpu/kernel_gradient.h"

namespace kinema::kernels {
namespace {

using Axes = ConvolutionPlan::Axes;

/// Merges rows into one row of `size` columns per frame: for a kernel one pixel wide, a pixel's
/// position does not matter.
void merge_rows(ConvolutionPlan& plan) {
  for (const size_t axis : {1, 2}) {
    if (plan.w[axis] != 1 || plan.stride[axis] != 1 || plan.low[axis] != 0 ||
        plan.x[axis] != plan.y[axis]) {
      return;
    }
  }
  for (Axes* sizes : {&plan.x, &plan.y}) {
    (*sizes)[2] *= (*sizes)[1];
    (*sizes)[1] = 1;
  }
}

}  // namespace

double ConvolutionPlan::flops() const {
  double flops = 2.0 * static_cast<double>(batch * groups * in * out);
  for (size_t i = 0; i < 3; ++i) {
    flops *= static_cast<double>(w[i]) * static_cast<double>(y[i]);
  }
  return flops;
}

std::optional<ConvolutionPlan> convolution_plan(const Dims& x, const Dims& w, const Dims& y,
                                                const ConvolutionAttrs& attrs) {
  const size_t spatial = attrs.strides.size();
  const auto empty = [](const Dims& dims) { return std::ranges::find(dims, 0) != dims.end(); };
  if (spatial == 0 || spatial > 3 || empty(x) || empty(w) || empty(y) ||
      std::ranges::any_of(attrs.lhs_dilation, [](int64_t d) { return d != 1; })) {
    return std::nullopt;
  }
  const Axes ones{1, 1, 1};
  ConvolutionPlan plan{
      x[0], attrs.groups, w[1], w[0] / attrs.groups, ones, ones, ones, ones, {}, ones, 1, 0};
  for (size_t i = 0; i < spatial; ++i) {
    const size_t axis = 3 - spatial + i;
    plan.x[axis] = x[i + 2];
    plan.w[axis] = w[i + 2];
    plan.y[axis] = y[i + 2];
    plan.stride[axis] = attrs.strides[i];
    plan.low[axis] = attrs.pad[i].first;
    plan.dilation[axis] = attrs.rhs_dilation.empty() ? 1 : attrs.rhs_dilation[i];
  }
  plan.stored = plan.w[0];
  if (is_kernel_gradient(plan)) {
    return plan;
  }
  if (plan.w[0] * plan.w[1] * plan.w[2] > kLargestKernel) {
    return std::nullopt;
  }
  merge_rows(plan);
  return plan;
}

std::vector<int64_t> to_words(const ConvolutionPlan& plan) {
  std::vector<int64_t> words{plan.batch, plan.groups, plan.in, plan.out};
  for (const Axes& axes : {plan.x, plan.w, plan.y, plan.stride, plan.low, plan.dilation}) {
    words.insert(words.end(), axes.begin(), axes.end());
  }
  words.insert(words.end(), {plan.stored, plan.first});
  return words;
}

ConvolutionPlan convolution_from_words(const int64_t* words, int64_t count) {
  check(count == 24, "[convolution kernel] a plan has {} words, expected 24", count);
  ConvolutionPlan plan{words[0], words[1], words[2], words[3], {},        {},
                       {},       {},       {},       {},       words[22], words[23]};
  const int64_t* at = words + 4;
  for (Axes* axes : {&plan.x, &plan.w, &plan.y, &plan.stride, &plan.low, &plan.dilation}) {
    std::copy(at, at + 3, axes->begin());
    at += 3;
  }
  return plan;
}

}  // namespace kinema::kernels
