#include "kinema/models/wan/block_stack.h"

#include <algorithm>
#include <set>

#include "kinema/graph/ops.h"
#include "kinema/graph/scan_some.h"
#include "kinema/models/wan/products.h"

namespace kinema::wan {
namespace {

bool has_dropout(const Conditioning& given) {
  return given.dropout.active() || given.low_rank_dropout.active();
}

/// Keys and values as a list, and back; those of the image may be missing.
std::vector<Tensor> listed(const CrossKeys& keys) {
  std::vector<Tensor> out{keys.key, keys.value};
  if (keys.image_key) {
    out.insert(out.end(), {keys.image_key, keys.image_value});
  }
  return out;
}

CrossKeys from_list(std::span<const Tensor> list) {
  CrossKeys out{list[0], list[1]};
  if (list.size() > 2) {
    out.image_key = list[2];
    out.image_value = list[3];
  }
  return out;
}

Tensor with_residual(Tensor x, int64_t layer, const Residuals& residuals) {
  const auto found = std::ranges::find(residuals.layers, layer);
  if (found == residuals.layers.end()) {
    return x;
  }
  const int64_t number = found - residuals.layers.begin();
  std::vector<Tensor> part;
  for (const Tensor each : residuals.values) {
    part.push_back(squeeze(slice(each, Axis(0), number, 1), Axis(0)));
  }
  return x + residuals(x, number, part);
}

/// Loops over ranges of the stacked parameters, which end where a residual is added and after a
/// first block that computes something else.
Tensor scanned_ranges(Tensor x, const BlockRow& row, const BlockParameters& parameters,
                      const Conditioning& given, const Residuals& residuals) {
  const StackedRow stack(row, parameters, given);
  std::set<int64_t> ends{row.layers};
  if (given.cfg_batch) {
    ends.insert(1);
  }
  for (const int64_t layer : residuals.layers) {
    ends.insert(layer + 1);
  }
  int64_t first = 0;
  for (const int64_t end : ends) {
    const bool cfg_batch = given.cfg_batch && first == 0;
    const ScanOptions steps{.length = end - first, .remat = parameters.options.remat};
    const ScanPart part{.first = first, .of = row.layers};
    const auto step = [&](std::span<const Tensor> carry,
                          std::span<const Tensor> layer) -> ScanResult {
      Conditioning here = stack.given(layer);
      here.cfg_batch = cfg_batch;
      return {.carry = {stack.layer<Block>(layer, here.low_rank_dropout)(carry[0], here)}};
    };
    x = scan_some({x}, stack.values(), steps, part, step).carry[0];
    x = with_residual(x, end - 1, residuals);
    first = end;
  }
  return x;
}

/// One loop; each step runs the blocks from one residual to the next, and adds the residual after
/// the first of them. Each block has the remat policy.
Tensor scanned_periods(Tensor x, const BlockRow& row, const BlockParameters& parameters,
                       const Conditioning& given, const Residuals& residuals) {
  const StackedRow stack(row, parameters, given);
  const auto steps = static_cast<int64_t>(residuals.layers.size());
  const int64_t period = row.layers / steps;
  std::vector<Tensor> xs;
  for (const Tensor each : stack.values()) {
    Dims dims = each.shape().dims;
    dims[0] = period;
    dims.insert(dims.begin(), steps);
    xs.push_back(reshape(each, dims));
  }
  const size_t own = xs.size();
  xs.insert(xs.end(), residuals.values.begin(), residuals.values.end());
  const auto step = [&](std::span<const Tensor> carry, std::span<const Tensor> all) -> ScanResult {
    Tensor y = carry[0];
    for (int64_t i = 0; i < period; ++i) {
      std::vector<Tensor> layer;
      for (const Tensor each : all.first(own)) {
        layer.push_back(squeeze(slice(each, Axis(0), i, 1), Axis(0)));
      }
      const Conditioning here = stack.given(layer);
      const auto block = stack.layer<Block>(layer, here.low_rank_dropout);
      y = checkpoint({y}, parameters.options.remat,
                     [&](std::span<const Tensor> in) -> std::vector<Tensor> {
                       return {block(in[0], here)};
                     })[0];
      y = i == 0 ? y + residuals(y, 0, all.subspan(own)) : y;
    }
    return {.carry = {y}};
  };
  return scan({x}, xs, {.length = steps}, step).carry[0];
}

/// The residuals are added after every k-th block, from the first, as in the released models.
bool is_periodic(const BlockRow& row, const Residuals& residuals) {
  const auto steps = static_cast<int64_t>(residuals.layers.size());
  if (steps == 0 || row.layers % steps != 0) {
    return false;
  }
  for (int64_t i = 0; i < steps; ++i) {
    if (residuals.layers[static_cast<size_t>(i)] != i * (row.layers / steps)) {
      return false;
    }
  }
  return true;
}

Tensor scanned_blocks(Tensor x, const BlockRow& row, const BlockParameters& parameters,
                      const Conditioning& given, const Residuals& residuals) {
  const Scope scope(x.graph(), std::string(row.prefix));
  return !given.cfg_batch && is_periodic(row, residuals)
             ? scanned_periods(x, row, parameters, given, residuals)
             : scanned_ranges(x, row, parameters, given, residuals);
}

/// One block after the other, each with the remat policy.
Tensor unrolled_blocks(Tensor x, const BlockRow& row, const BlockParameters& parameters,
                       const Conditioning& given, const Residuals& residuals,
                       const NetworkTap& tap) {
  for (int64_t i = 0; i < row.layers; ++i) {
    const Scope scope(x.graph(), row.key(i));
    Conditioning here = given_to_layer(i, row, parameters, given);
    here.cfg_batch = given.cfg_batch && i == 0;
    const Block block(nn::Params(parameters.binder, row.key(i)), parameters.config);
    if (tap) {
      const std::string name = "block" + std::to_string(i);
      x = block(x, here, [&](const char* part, Tensor value) { tap(name + "." + part, value); });
      tap(name, x);
    } else {
      x = checkpoint({x}, parameters.options.remat,
                     [&](std::span<const Tensor> in) -> std::vector<Tensor> {
                       return {block(in[0], here)};
                     })[0];
    }
    x = with_residual(x, i, residuals);
  }
  return x;
}

}  // namespace

StackedRow::StackedRow(const BlockRow& row, const BlockParameters& parameters,
                       const Conditioning& given)
    : key_(row.stacked_key()),
      config_(parameters.config),
      given_(given),
      quantized_(nn::quantized_products(parameters.options.quantization, module_path)) {
  for (size_t i = 0; i < parameters.specs.size(); ++i) {
    const nn::ParamSpec& spec = parameters.specs[i];
    if (spec.layers > 0 && spec.name.starts_with(key_)) {
      keys_.push_back(spec.name);
      values_.push_back(parameters.values[i]);
    }
  }
  if (has_dropout(given)) {
    has_numbers_ = true;
    Graph& graph = values_.at(0).graph();
    Tensor numbers = iota(graph, {DType::U32, {row.layers}}, Axis(0));
    if (row.first_layer > 0) {
      numbers = numbers + constant(graph, static_cast<double>(row.first_layer), numbers.shape());
    }
    values_.push_back(numbers);
  }
  if (given.keys) {
    const std::vector<Tensor> list = listed(*given.keys);
    values_.insert(values_.end(), list.begin(), list.end());
  }
}

Conditioning StackedRow::given(std::span<const Tensor> values) const {
  Conditioning out = given_;
  size_t at = keys_.size();
  if (has_numbers_) {
    out.dropout = given_.dropout.at(values[at]);
    out.low_rank_dropout = given_.low_rank_dropout.at(values[at]);
    ++at;
  }
  if (given_.keys) {
    out.keys = from_list(values.subspan(at));
  }
  return out;
}

Conditioning given_to_layer(int64_t i, const BlockRow& row, const BlockParameters& parameters,
                            const Conditioning& given) {
  Conditioning out = given;
  if (has_dropout(given)) {
    const Tensor layer = constant(given.time.graph(), static_cast<double>(row.first_layer + i),
                                  Shape{DType::U32, {}});
    out.dropout = given.dropout.at(layer);
    out.low_rank_dropout = given.low_rank_dropout.at(layer);
    parameters.binder.set_low_rank_dropout(out.low_rank_dropout);
  }
  if (given.keys) {
    std::vector<Tensor> own;
    for (const Tensor stack : listed(*given.keys)) {
      own.push_back(squeeze(slice(stack, Axis(0), i, 1), Axis(0)));
    }
    out.keys = from_list(own);
  }
  return out;
}

Tensor run_blocks(Tensor x, const BlockRow& row, const BlockParameters& parameters,
                  const Conditioning& given, const Residuals& residuals, const NetworkTap& tap) {
  return parameters.options.scan_layers
             ? scanned_blocks(x, row, parameters, given, residuals)
             : unrolled_blocks(x, row, parameters, given, residuals, tap);
}

CrossKeys cross_keys_of(const BlockRow& row, const BlockParameters& parameters, Tensor text,
                        Tensor image) {
  Graph& graph = text.graph();
  const Precision precision = parameters.options.precision;
  if (parameters.options.scan_layers) {
    const StackedRow stack(row, parameters);
    const Scope scope(graph, std::string(row.prefix));
    return from_list(
        scan({}, stack.values(), {.length = row.layers},
             [&](std::span<const Tensor>, std::span<const Tensor> layer) -> ScanResult {
               return {.ys = listed(stack.layer<Block>(layer).cross_keys(text, image, precision))};
             })
            .ys);
  }
  std::vector<std::vector<Tensor>> layers;  // by result, then by layer
  for (int64_t i = 0; i < row.layers; ++i) {
    const Scope scope(graph, row.key(i));
    const Block block(nn::Params(parameters.binder, row.key(i)), parameters.config);
    const std::vector<Tensor> list = listed(block.cross_keys(text, image, precision));
    layers.resize(list.size());
    for (size_t k = 0; k < list.size(); ++k) {
      layers[k].push_back(expand_dims(list[k], Axis(0)));
    }
  }
  std::vector<Tensor> stacked;
  for (const std::vector<Tensor>& kind : layers) {
    stacked.push_back(concatenate(kind, Axis(0)));
  }
  return from_list(stacked);
}

CrossKeys joined(const CrossKeys& first, const CrossKeys& second) {
  const std::vector<Tensor> a = listed(first);
  const std::vector<Tensor> b = listed(second);
  std::vector<Tensor> out;
  for (size_t i = 0; i < a.size(); ++i) {
    out.push_back(concatenate({a[i], b[i]}, Axis(0)));
  }
  return from_list(out);
}

CrossKeys keys_of(const BlockRow& row, const CrossKeys& all) {
  std::vector<Tensor> out;
  for (const Tensor each : listed(all)) {
    out.push_back(slice(each, Axis(0), row.first_layer, row.layers));
  }
  return from_list(out);
}

}  // namespace kinema::wan
