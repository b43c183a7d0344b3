#include "kinema/graph/scan.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/body.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan_some.h"

namespace kinema {
namespace {

Shape stacked(Shape shape, int64_t length) {
  shape.dims.insert(shape.dims.begin(), length);
  return shape;
}

/// Sums over many steps are accumulated in f32 for half types.
Shape accumulator(Shape shape) {
  if (is_float(shape.dtype) && byte_size(shape.dtype) < 4) {
    shape.dtype = DType::F32;
  }
  return shape;
}

/// index among the backward loop's xs
struct KeptValues {
  std::map<TensorKey, size_t> slice;  // position among the backward loop's xs
  std::map<TensorKey, Tensor> outer;
  std::map<TensorKey, bool> on_host;
};

/// An input of the loop as its steps use it: a range of an x's, if it loops over a part.
Tensor used_part(Node& node, const Body& body, size_t j) {
  const Tensor x = node.input(j);
  const bool is_x = j >= body.carries && j < body.carries + body.xs;
  return is_x && x.dim(0) != body.length ? slice(x, Axis(0), body.first, body.length) : x;
}

KeptValues keep_values(Node& node, Body& body, const BodyGradient& gradient,
                       std::vector<Tensor>& backward_xs) {
  KeptValues kept;
  const auto inputs = body.graph->inputs();
  for (const Tensor inside : gradient.kept()) {
    const auto found = std::ranges::find(inputs, inside);
    const auto j = static_cast<size_t>(found - inputs.begin());
    if (j >= body.carries + body.xs && j < inputs.size()) {
      kept.outer[key_of(inside)] = node.input(j);
      continue;
    }
    Tensor stack;
    if (j >= body.carries && j < inputs.size()) {
      stack = used_part(node, body, j);
    } else {
      const bool on_host = gradient.offloads(inside);
      kept.on_host[key_of(inside)] = on_host;
      stack = export_from(node, body, on_host ? place(inside, true) : inside, true);
    }
    kept.slice[key_of(inside)] = backward_xs.size();
    backward_xs.push_back(stack);
  }
  return kept;
}

/// The cotangents of a loop's inputs, from the results of its backward loop: of the carries that
/// have one (`asked`), of captures (`summed`) and of xs (`sliced`), the latter two by their index.
/// Steps that a loop over a part leaves out have none.
Cotangents cotangents_of(const Node& node, const ScanResult& back, const std::vector<bool>& asked,
                         std::span<const size_t> summed, std::span<const size_t> sliced) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const size_t carries = body.carries;
  Cotangents result(node.inputs.size());
  size_t next = 0;
  for (size_t j = 0; j < carries; ++j) {
    if (asked[j]) {
      result[j] = back.carry[next++];
    }
  }
  for (const size_t j : summed) {
    result[j] = convert(back.carry[next++], node.shape(j).dtype);
  }
  for (size_t k = 0; k < sliced.size(); ++k) {
    const int64_t of = node.shape(sliced[k]).dims[0];
    result[sliced[k]] = of == body.length
                            ? back.ys[k]
                            : pad(back.ys[k], Axis(0), body.first, of - body.first - body.length);
  }
  return result;
}

/// The backward loop carries d carry and the sums of the captures' gradients; its ys are the
/// gradients of the xs.
Cotangents scan_gradient(Node& node, std::span<const Tensor> dys, const std::vector<bool>& wanted) {
  Body& body = *node.get<std::shared_ptr<Body>>();
  const size_t count = node.inputs.size();
  std::vector<bool> has_cotangent;
  std::vector<Tensor> carry;
  std::vector<Tensor> xs;
  for (size_t i = 0; i < dys.size(); ++i) {
    const bool is_carry = i < body.carries;
    has_cotangent.push_back(is_carry ? is_float(node.results[i].dtype) : static_cast<bool>(dys[i]));
    if (has_cotangent.back()) {
      (is_carry ? carry : xs)
          .push_back(dys[i] ? dys[i] : constant(*node.graph, 0.0, node.results[i]));
    }
  }
  const size_t carries = carry.size();
  const size_t cotangent_slices = xs.size();
  std::vector<bool> asked = wanted;
  for (size_t j = 0; j < body.carries; ++j) {
    asked[j] = is_float(node.shape(j).dtype);
  }
  const BodyGradient gradient(body, has_cotangent, asked);
  std::vector<size_t> summed;
  std::vector<size_t> sliced;
  for (size_t j = body.carries; j < count; ++j) {
    if (asked[j] && gradient.has_gradient(j)) {
      if (j < body.carries + body.xs) {
        sliced.push_back(j);
      } else {
        summed.push_back(j);
        carry.push_back(constant(*node.graph, 0.0, accumulator(node.shape(j))));
      }
    }
  }
  const KeptValues kept = keep_values(node, body, gradient, xs);

  const auto step = [&](std::span<const Tensor> sums, std::span<const Tensor> slices) {
    std::vector<Tensor> cotangents(sums.begin(), sums.begin() + static_cast<int64_t>(carries));
    cotangents.insert(cotangents.end(), slices.begin(),
                      slices.begin() + static_cast<int64_t>(cotangent_slices));
    Graph& target = innermost(cotangents);
    const auto value = [&](Tensor inside) {
      if (const auto found = kept.outer.find(key_of(inside)); found != kept.outer.end()) {
        return found->second;
      }
      const Tensor slice = slices[kept.slice.at(key_of(inside))];
      const auto on_host = kept.on_host.find(key_of(inside));
      return on_host != kept.on_host.end() && on_host->second ? place(slice, false) : slice;
    };
    const std::vector<Tensor> grads = gradient.build(target, value, cotangents);
    ScanResult result;
    for (size_t j = 0; j < body.carries; ++j) {
      if (asked[j]) {
        result.carry.push_back(grads[j] ? grads[j] : constant(target, 0.0, node.shape(j)));
      }
    }
    for (size_t k = 0; k < summed.size(); ++k) {
      const Tensor sum = sums[carries + k];
      result.carry.push_back(sum + convert(grads[summed[k]], sum.dtype()));
    }
    for (const size_t j : sliced) {
      result.ys.push_back(grads[j]);
    }
    return result;
  };
  const ScanResult back = scan(carry, xs, {.length = body.length, .reverse = !body.reverse}, step);

  return cotangents_of(node, back, asked, summed, sliced);
}

}  // namespace

// carry_{i+1}, ys_i = body(carry_i, xs_i, captures)
constinit const Op kScan{
    .name = "scan", .infer = nullptr, .gradient = scan_gradient, .emit = emit_scan};

ScanResult scan(
    std::vector<Tensor> carry, std::vector<Tensor> xs, ScanOptions options,
    const std::function<ScanResult(std::span<const Tensor>, std::span<const Tensor>)>& body) {
  const ScanPart all{.first = 0, .of = options.length};
  return scan_some(std::move(carry), std::move(xs), std::move(options), all, body);
}

ScanResult scan_some(
    std::vector<Tensor> carry, std::vector<Tensor> xs, ScanOptions options, ScanPart part,
    const std::function<ScanResult(std::span<const Tensor>, std::span<const Tensor>)>& body) {
  check(options.length > 0, "[scan] the length is {} but must be positive", options.length);
  check(part.first >= 0 && part.first + options.length <= part.of,
        "[scan] steps {} to {} are not among {}", part.first, part.first + options.length, part.of);
  std::vector<Tensor> inputs = carry;
  inputs.insert(inputs.end(), xs.begin(), xs.end());
  Graph& parent = innermost(inputs);
  auto inside = std::make_shared<Body>();
  inside->graph = std::make_unique<Graph>(&parent);
  inside->remat = options.remat;
  inside->length = options.length;
  inside->first = part.first;
  inside->reverse = options.reverse;
  inside->carries = carry.size();
  inside->xs = xs.size();
  inside->in_place = options.in_place;
  std::vector<Tensor> carry_in;
  std::vector<Tensor> slices;
  for (const Tensor x : carry) {
    carry_in.push_back(inside->graph->input(x.shape()));
  }
  for (const Tensor x : xs) {
    check(x.rank() > 0 && x.dim(0) == part.of,
          "[scan] an x is {} but its first size must be the length, {}", to_string(x.shape()),
          part.of);
    Shape slice = x.shape();
    slice.dims.erase(slice.dims.begin());
    slices.push_back(inside->graph->input(slice));
  }
  const ScanResult step = body(carry_in, slices);
  check(step.carry.size() == carry.size(), "[scan] the body returns {} of {} carried values",
        step.carry.size(), carry.size());
  std::vector<Shape> results;
  for (size_t i = 0; i < carry.size(); ++i) {
    check(step.carry[i].shape() == carry[i].shape(),
          "[scan] carried value {} goes in as {} and comes out as {}", i,
          to_string(carry[i].shape()), to_string(step.carry[i].shape()));
    inside->outputs.push_back(inside->graph->capture(step.carry[i]));
    results.push_back(carry[i].shape());
  }
  for (const Tensor y : step.ys) {
    inside->outputs.push_back(inside->graph->capture(y));
    results.push_back(stacked(y.shape(), options.length));
  }
  for (const auto& [y, x] : options.in_place) {
    check(y < step.ys.size() && x < xs.size() && results[carry.size() + y] == xs[x].shape(),
          "[scan] y {} does not fit in the place of x {}", y, x);
  }
  const auto captures = inside->graph->captures();
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  Node& node = parent.add_multi(kScan, std::move(inputs), inside, std::move(results));
  ScanResult result;
  for (size_t i = 0; i < inside->outputs.size(); ++i) {
    (i < carry.size() ? result.carry : result.ys).push_back(node.result(static_cast<int64_t>(i)));
  }
  return result;
}

}  // namespace kinema
