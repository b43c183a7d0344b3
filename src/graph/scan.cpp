#include "graph/scan.h"

#include <algorithm>

#include "core/error.h"
#include "graph/body.h"
#include "graph/emit.h"
#include "graph/ops.h"

namespace kinema {
namespace {

Shape stacked(Shape shape, int64_t length) {
  shape.dims.insert(shape.dims.begin(), length);
  return shape;
}

std::string zero_scalar(Emitter& out) {
  const std::string name = out.fresh();
  out.line("{} = stablehlo.constant dense<0> : tensor<i32>", name);
  return name;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::string index_operands(const std::string& index, const std::string& zero, int64_t rank) {
  std::string text = index;
  for (int64_t i = 1; i < rank; ++i) {
    text += ", " + zero;
  }
  return text;
}

std::string index_types(int64_t rank) {
  std::string text = "tensor<i32>";
  for (int64_t i = 1; i < rank; ++i) {
    text += ", tensor<i32>";
  }
  return text;
}

/// One step's slice of a stacked value.
std::string emit_slice(Emitter& out, const std::string& xs, const Shape& shape,
                       const std::string& index, const std::string& zero) {
  Shape one = shape;
  one.dims[0] = 1;
  std::string sizes;
  for (const int64_t d : one.dims) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(d);
  }
  const std::string piece = out.fresh();
  out.line(
      "{} = \"stablehlo.dynamic_slice\"({}, {}) {{slice_sizes = array<i64: {}>}} : ({}, {}) -> {}",
      piece, xs, index_operands(index, zero, shape.rank()), sizes, mlir_type(shape),
      index_types(shape.rank()), mlir_type(one));
  Shape slice = shape;
  slice.dims.erase(slice.dims.begin());
  const std::string result = out.fresh();
  out.line("{} = stablehlo.reshape {} : ({}) -> {}", result, piece, mlir_type(one),
           mlir_type(slice));
  return result;
}

/// `ys` with one step's value written into it.
std::string emit_store(Emitter& out, const std::string& ys, const Shape& shape,
                       const std::string& value, const std::string& index,
                       const std::string& zero) {
  Shape slice = shape;
  slice.dims.erase(slice.dims.begin());
  Shape one = shape;
  one.dims[0] = 1;
  const std::string piece = out.fresh();
  out.line("{} = stablehlo.reshape {} : ({}) -> {}", piece, value, mlir_type(slice),
           mlir_type(one));
  const std::string result = out.fresh();
  out.line("{} = \"stablehlo.dynamic_update_slice\"({}, {}, {}) : ({}, {}, {}) -> {}", result, ys,
           piece, index_operands(index, zero, shape.rank()), mlir_type(shape), mlir_type(one),
           index_types(shape.rank()), mlir_type(shape));
  return result;
}

/// The loop state of the emitted `while`: step, carry, ys, xs, captures.
struct LoopState {
  std::vector<Shape> shapes;
  std::vector<std::string> initial;

  std::string types() const {
    std::vector<std::string> names;
    for (const Shape& shape : shapes) {
      names.push_back(mlir_type(shape));
    }
    return joined(names);
  }
  std::vector<std::string> block_arguments(Emitter& out) const {
    std::vector<std::string> names;
    std::vector<std::string> typed;
    for (const Shape& shape : shapes) {
      names.push_back(out.fresh());
      typed.push_back(names.back() + ": " + mlir_type(shape));
    }
    out.line("^bb0({}):", joined(typed));
    return names;
  }
};

LoopState loop_state(const Node& node, const Body& body, Emitter& out) {
  LoopState state;
  const auto push = [&](const Shape& shape, std::string name) {
    state.shapes.push_back(shape);
    state.initial.push_back(std::move(name));
  };
  push({DType::S32, {}}, zero_scalar(out));
  for (size_t i = 0; i < body.carries; ++i) {
    push(node.shape(i), out.name(node.input(i)));
  }
  for (size_t i = body.carries; i < node.results.size(); ++i) {
    const std::string zeros = out.fresh();
    const Shape& shape = node.results[i];
    const char* zero = is_float(shape.dtype) ? "0.0" : shape.dtype == DType::PRED ? "false" : "0";
    out.line("{} = stablehlo.constant dense<{}> : {}", zeros, zero, mlir_type(shape));
    push(shape, zeros);
  }
  for (size_t i = body.carries; i < node.inputs.size(); ++i) {
    push(node.shape(i), out.name(node.input(i)));
  }
  return state;
}

std::vector<std::string> emit_step(const Node& node, const Body& body, Emitter& out,
                                   const std::vector<std::string>& args) {
  const size_t results = node.results.size();
  const std::string one = out.fresh();
  out.line("{} = stablehlo.constant dense<1> : tensor<i32>", one);
  const std::string zero = zero_scalar(out);
  std::string index = args[0];
  if (body.reverse) {
    const std::string last = out.fresh();
    out.line("{} = stablehlo.constant dense<{}> : tensor<i32>", last, body.length - 1);
    index = out.fresh();
    out.line("{} = stablehlo.subtract {}, {} : tensor<i32>", index, last, args[0]);
  }
  for (size_t i = 0; i < body.carries; ++i) {
    out.bind(body.graph->inputs()[i], args[1 + i]);
  }
  for (size_t i = body.carries; i < node.inputs.size(); ++i) {
    const std::string& arg = args[1 + results + i - body.carries];
    const bool sliced = i < body.carries + body.xs;
    out.bind(body.graph->inputs()[i],
             sliced ? emit_slice(out, arg, node.shape(i), index, zero) : arg);
  }
  out.body(*body.graph, body.outputs);
  std::vector<std::string> next = args;
  next[0] = out.fresh();
  out.line("{} = stablehlo.add {}, {} : tensor<i32>", next[0], args[0], one);
  for (size_t i = 0; i < results; ++i) {
    const std::string& value = out.name(body.outputs[i]);
    next[1 + i] = i < body.carries
                      ? value
                      : emit_store(out, args[1 + i], node.results[i], value, index, zero);
  }
  return next;
}

void emit_scan(const Node& node, Emitter& out) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const LoopState state = loop_state(node, body, out);
  const std::string result = out.fresh();
  out.line("{}:{} = \"stablehlo.while\"({}) ({{", result, state.shapes.size(),
           joined(state.initial));
  const std::vector<std::string> condition_args = state.block_arguments(out);
  out.indent(1);
  const std::string limit = out.fresh();
  out.line("{} = stablehlo.constant dense<{}> : tensor<i32>", limit, body.length);
  const std::string more = out.fresh();
  out.line("{} = stablehlo.compare LT, {}, {}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>",
           more, condition_args[0], limit);
  out.line("\"stablehlo.return\"({}) : (tensor<i1>) -> ()", more);
  out.indent(-1);
  out.line("}}, {{");
  const std::vector<std::string> args = state.block_arguments(out);
  out.indent(1);
  const std::vector<std::string> next = emit_step(node, body, out, args);
  out.line("\"stablehlo.return\"({}) : ({}) -> ()", joined(next), state.types());
  out.indent(-1);
  out.line("}}) : ({}) -> ({}){}", state.types(), state.types(), out.location(node));
  for (size_t i = 0; i < node.results.size(); ++i) {
    out.bind(const_cast<Node&>(node).result(static_cast<int64_t>(i)),
             fmt::format("{}#{}", result, 1 + i));
  }
}

void emit_call(const Node& node, Emitter& out) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    out.bind(body.graph->inputs()[i], out.name(node.input(i)));
  }
  out.body(*body.graph, body.outputs);
  for (size_t i = 0; i < node.results.size(); ++i) {
    out.bind(const_cast<Node&>(node).result(static_cast<int64_t>(i)), out.name(body.outputs[i]));
  }
}

/// Sums over many steps are kept in f32 where the gradient itself is narrower.
Shape accumulator(Shape shape) {
  if (shape.dtype == DType::BF16 || shape.dtype == DType::F16) {
    shape.dtype = DType::F32;
  }
  return shape;
}

/// Where the backward loop finds a kept value: among its slices, or outside.
struct KeptValues {
  std::map<TensorKey, size_t> slice;  // position among the backward loop's xs
  std::map<TensorKey, Tensor> outer;
  std::map<TensorKey, bool> on_host;
};

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
      stack = node.input(j);
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

/// d carry runs backwards through the steps; gradients of captures add up on the way; gradients of
/// the xs are the backward loop's ys.
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

  Cotangents result(count);
  for (size_t j = 0, next = 0; j < body.carries; ++j) {
    if (asked[j]) {
      result[j] = back.carry[next++];
    }
  }
  for (size_t k = 0; k < summed.size(); ++k) {
    result[summed[k]] = convert(back.carry[carries + k], node.shape(summed[k]).dtype);
  }
  for (size_t k = 0; k < sliced.size(); ++k) {
    result[sliced[k]] = back.ys[k];
  }
  return result;
}

Cotangents call_gradient(Node& node, std::span<const Tensor> dys, const std::vector<bool>& wanted) {
  Body& body = *node.get<std::shared_ptr<Body>>();
  std::vector<bool> has_cotangent;
  std::vector<Tensor> walled;
  for (const Tensor dy : dys) {
    has_cotangent.push_back(static_cast<bool>(dy));
    if (dy) {
      walled.push_back(dy);
    }
  }
  const size_t cotangents = walled.size();
  const BodyGradient gradient(body, has_cotangent, wanted);
  std::map<TensorKey, size_t> behind_wall;
  std::map<TensorKey, Tensor> values;
  const auto inputs = body.graph->inputs();
  for (const Tensor inside : gradient.kept()) {
    const auto found = std::ranges::find(inputs, inside);
    Tensor outer;
    if (found != inputs.end()) {
      outer = node.input(static_cast<size_t>(found - inputs.begin()));
    } else {
      const bool on_host = gradient.offloads(inside);
      outer = export_from(node, body, on_host ? place(inside, true) : inside, false);
      outer = on_host ? place(outer, false) : outer;
    }
    if (outer.node().op == &kInput) {
      values[key_of(inside)] = outer;  // a parameter: the activations alone keep CSE out
    } else {
      behind_wall[key_of(inside)] = walled.size();
      walled.push_back(outer);
    }
  }
  // One wall for cotangents and kept values: recomputation can neither merge with the forward pass
  // nor begin before its gradient has arrived.
  walled = optimization_barrier(walled);
  const auto value = [&](Tensor inside) {
    const auto found = behind_wall.find(key_of(inside));
    return found != behind_wall.end() ? walled[found->second] : values.at(key_of(inside));
  };
  return gradient.build(*node.graph, value, std::span(walled).first(cotangents));
}

}  // namespace

// carry_{i+1}, ys_i = body(carry_i, xs_i, captures)
constinit const Op kScan{
    .name = "scan", .infer = nullptr, .gradient = scan_gradient, .emit = emit_scan};

// ys = body(inputs), inlined
constinit const Op kCall{
    .name = "call", .infer = nullptr, .gradient = call_gradient, .emit = emit_call};

ScanResult scan(
    std::vector<Tensor> carry, std::vector<Tensor> xs, ScanOptions options,
    const std::function<ScanResult(std::span<const Tensor>, std::span<const Tensor>)>& body) {
  check(options.length > 0, "[scan] the length is {} but must be positive", options.length);
  std::vector<Tensor> inputs = carry;
  inputs.insert(inputs.end(), xs.begin(), xs.end());
  Graph& parent = innermost(inputs);
  auto inside = std::make_shared<Body>();
  inside->graph = std::make_unique<Graph>(&parent);
  inside->remat = options.remat;
  inside->length = options.length;
  inside->reverse = options.reverse;
  inside->carries = carry.size();
  inside->xs = xs.size();
  std::vector<Tensor> carry_in;
  std::vector<Tensor> slices;
  for (const Tensor x : carry) {
    carry_in.push_back(inside->graph->input(x.shape()));
  }
  for (const Tensor x : xs) {
    check(x.rank() > 0 && x.dim(0) == options.length,
          "[scan] an x is {} but its first size must be the length, {}", to_string(x.shape()),
          options.length);
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
  const auto captures = inside->graph->captures();
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  Node& node = parent.add_multi(kScan, std::move(inputs), inside, std::move(results));
  ScanResult result;
  for (size_t i = 0; i < inside->outputs.size(); ++i) {
    (i < carry.size() ? result.carry : result.ys).push_back(node.result(static_cast<int64_t>(i)));
  }
  return result;
}

namespace {

std::vector<Tensor> call(std::shared_ptr<Body> inside, std::vector<Tensor> inputs,
                         const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  Graph& parent = innermost(inputs);
  inside->graph = std::make_unique<Graph>(&parent);
  std::vector<Tensor> arguments;
  for (const Tensor x : inputs) {
    arguments.push_back(inside->graph->input(x.shape()));
  }
  std::vector<Shape> results;
  for (const Tensor y : body(arguments)) {
    inside->outputs.push_back(inside->graph->capture(y));
    results.push_back(y.shape());
  }
  const auto captures = inside->graph->captures();
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  Node& node = parent.add_multi(kCall, std::move(inputs), inside, std::move(results));
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < inside->outputs.size(); ++i) {
    outputs.push_back(node.result(static_cast<int64_t>(i)));
  }
  return outputs;
}

}  // namespace

std::vector<Tensor> checkpoint(
    std::vector<Tensor> inputs, RematPolicy policy,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  if (policy.kind == RematPolicy::Kind::NONE) {
    return body(inputs);
  }
  auto inside = std::make_shared<Body>();
  inside->remat = std::move(policy);
  return call(std::move(inside), std::move(inputs), body);
}

std::vector<Tensor> fused(std::string kernel, std::any settings, std::vector<Tensor> inputs,
                          const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  auto inside = std::make_shared<Body>();
  inside->remat = {.kind = RematPolicy::Kind::FULL};
  inside->kernel = std::move(kernel);
  inside->settings = std::move(settings);
  return call(std::move(inside), std::move(inputs), body);
}

RematPolicy remat_policy(const std::string& name, std::vector<std::string> saved,
                         std::vector<std::string> offloaded) {
  using Kind = RematPolicy::Kind;
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  if (upper == "NONE") {
    return {};
  }
  if (upper == "FULL") {
    return {.kind = Kind::FULL};
  }
  if (upper == "MATMUL_WITHOUT_BATCH") {
    return {.kind = Kind::MATMUL_WITHOUT_BATCH};
  }
  if (upper == "OFFLOAD_MATMUL_WITHOUT_BATCH") {
    return {.kind = Kind::MATMUL_WITHOUT_BATCH, .offload = true};
  }
  if (upper == "HIDDEN_STATE_WITH_OFFLOAD") {
    return {.kind = Kind::CUSTOM, .offloaded = {"hidden_states", "self_attn", "cross_attn"}};
  }
  if (upper == "CUSTOM") {
    return {.kind = Kind::CUSTOM, .saved = std::move(saved), .offloaded = std::move(offloaded)};
  }
  fail(
      "[remat] the policy `{}` is not known\n  use NONE, FULL, MATMUL_WITHOUT_BATCH, "
      "OFFLOAD_MATMUL_WITHOUT_BATCH, HIDDEN_STATE_WITH_OFFLOAD or CUSTOM",
      name);
}

}  // namespace kinema
