#include "kinema/nn/layers.h"

#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::nn {
namespace {

std::string stacked_path(const Layers& layers) { return layers.path + ".{}"; }
std::string layer_path(const Layers& layers, int64_t i) {
  return fmt::format("{}.{}", layers.path, i);
}

}  // namespace

void open_layers(SpecCollector& specs, const Layers& layers, bool stacked,
                 const std::function<void(const Params& layer)>& open) {
  if (stacked && layers.count > 0) {  // without layers there is no stack
    specs.set_layers(layers.count);
    open(Params(specs, stacked_path(layers)));
    specs.set_layers(0);
    return;
  }
  for (int64_t i = 0; i < layers.count; ++i) {
    open(Params(specs, layer_path(layers, i)));
  }
}

Bound::Bound(std::vector<ParamSpec> specs, std::span<const Tensor> tensors,
             QuantizedProducts quantized, Dropout low_rank_dropout)
    : specs_(std::move(specs)),
      tensors_(tensors.begin(), tensors.end()),
      quantized_(std::move(quantized)),
      low_rank_dropout_(low_rank_dropout),
      binder_(specs_, tensors_, quantized_) {
  binder_.set_low_rank_dropout(low_rank_dropout_);
}

Bound::Stack Bound::stack(const Layers& layers) const {
  Stack out;
  const std::string prefix = stacked_path(layers) + ".";
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].layers > 0 && specs_[i].name.starts_with(prefix)) {
      out.keys.push_back(specs_[i].name);
      out.tensors.push_back(tensors_[i]);
    }
  }
  return out;
}

Binder Bound::turn(const Stack& stack, std::span<const Tensor> slices,
                   Dropout low_rank_dropout) const {
  Binder binder(quantized_);
  binder.set_low_rank_dropout(low_rank_dropout);
  for (size_t i = 0; i < stack.keys.size(); ++i) {
    binder.add(stack.keys[i], slices[i]);
  }
  return binder;
}

std::vector<Tensor> Bound::run(const Layers& layers, std::vector<Tensor> carry,
                               std::span<const Tensor> given, const Options& options,
                               const Step& step) {
  check(!carry.empty(), "[layers] {} have an empty carry", layers.path);
  Graph& graph = carry[0].graph();
  const Stack weights = stack(layers);
  if (!weights.keys.empty()) {
    std::vector<Tensor> xs = weights.tensors;
    const bool dropout = low_rank_dropout_.active();
    if (dropout) {
      xs.push_back(iota(graph, {DType::U32, {layers.count}}, Axis(0)));
    }
    const size_t first_given = xs.size();
    xs.insert(xs.end(), given.begin(), given.end());
    const Scope scope(graph, layers.path);
    return scan(std::move(carry), xs, {.length = layers.count, .remat = options.remat},
                [&](std::span<const Tensor> x, std::span<const Tensor> slices) -> ScanResult {
                  const Dropout here =
                      dropout ? low_rank_dropout_.at(slices[weights.keys.size()]) : Dropout();
                  Binder binder = turn(weights, slices, here);
                  const Layer layer{.params = {binder, stacked_path(layers)},
                                    .given = slices.subspan(first_given)};
                  return {.carry = step(layer, x)};
                })
        .carry;
  }
  for (int64_t i = 0; i < layers.count; ++i) {
    const Scope scope(graph, layer_path(layers, i));
    if (low_rank_dropout_.active()) {
      const Tensor number = constant(graph, static_cast<double>(i), Shape{DType::U32, {}});
      binder_.set_low_rank_dropout(low_rank_dropout_.at(number));
    }
    std::vector<Tensor> here;
    for (const Tensor& all : given) {
      here.push_back(squeeze(slice(all, Axis(0), i, 1), Axis(0)));
    }
    const Layer layer{.params = {binder_, layer_path(layers, i)}, .number = i, .given = here};
    carry = options.has_tap ? step(layer, carry)
                            : checkpoint(carry, options.remat,
                                         [&](std::span<const Tensor> x) { return step(layer, x); });
  }
  binder_.set_low_rank_dropout(low_rank_dropout_);
  return carry;
}

std::vector<Tensor> Bound::per_layer(
    const Layers& layers, Graph& graph,
    const std::function<std::vector<Tensor>(const Layer& layer)>& step) {
  const Stack weights = stack(layers);
  if (!weights.keys.empty()) {
    const Scope scope(graph, layers.path);
    return scan({}, weights.tensors, {.length = layers.count},
                [&](std::span<const Tensor>, std::span<const Tensor> slices) -> ScanResult {
                  Binder binder = turn(weights, slices, {});
                  return {.ys = step({.params = {binder, stacked_path(layers)}})};
                })
        .ys;
  }
  std::vector<std::vector<Tensor>> values;  // by result, then by layer
  for (int64_t i = 0; i < layers.count; ++i) {
    const Scope scope(graph, layer_path(layers, i));
    const std::vector<Tensor> made =
        step({.params = {binder_, layer_path(layers, i)}, .number = i});
    values.resize(made.size());
    for (size_t k = 0; k < made.size(); ++k) {
      values[k].push_back(expand_dims(made[k], Axis(0)));
    }
  }
  std::vector<Tensor> stacked;
  for (const std::vector<Tensor>& of_kind : values) {
    stacked.push_back(concatenate(of_kind, Axis(0)));
  }
  return stacked;
}

}  // namespace kinema::nn
