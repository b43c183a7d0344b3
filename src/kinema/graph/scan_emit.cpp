// The text of a scan: one `stablehlo.while` whose state is step, carry, ys, xs and captures.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kinema/graph/body.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/ops/attrs.h"

namespace kinema {
namespace {

/// An s32 scalar.
std::string emit_number(Emitter& out, int64_t value) {
  const std::string name = out.fresh();
  out.line("{} = stablehlo.constant dense<{}> : tensor<i32>", name, value);
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

/// The stack that the loop holds for an x; `steps`, first to last, turn its slices into those of
/// the x.
struct Held {
  Tensor stack;
  std::vector<const Node*> steps;
};

/// True if each device holds complete slices of the constrained stack.
bool slices_are_whole(const Node& constraint) {
  const auto& dims = constraint.get<ShardingAttrs>().sharding.dims;
  return dims.empty() || dims[0].empty();
}

/// If x is a conversion of an argument and each slice is converted separately (arguments in host
/// memory, and F32 ones), the argument; else x itself.
Held held(Tensor x, const Emitter& out) {
  const Held itself{x, {}};
  std::vector<const Node*> steps;
  Tensor at = x;
  bool converts = false;
  while (at.node().op == &kConvert || at.node().op == &kWithSharding) {
    if (at.node().op == &kWithSharding && !slices_are_whole(at.node())) {
      return itself;
    }
    converts |= at.node().op == &kConvert;
    steps.insert(steps.begin(), &at.node());
    at = at.node().input(0);
  }
  const bool is_argument = at.node().op == &kInput && at.graph().parent() == nullptr;
  const bool is_converted_here =
      out.options().convert_in_loops && converts && is_argument && at.dtype() == DType::F32;
  return is_converted_here || out.memory(at) != Memory::DEVICE ? Held{at, steps} : itself;
}

/// The slice of an x, from the slice of the stack that the loop holds.
std::string emit_held_steps(Emitter& out, const Held& held, std::string slice) {
  if (held.steps.empty()) {
    return slice;
  }
  Shape shape = held.stack.shape();
  shape.dims.erase(shape.dims.begin());
  // As bits, behind a barrier: otherwise libtpu's bfloat16-propagation finds that the loop reads
  // only rounded values of the stack, and rounds all of it before the loop.
  const Shape bits{DType::U32, shape.dims};
  const std::string as_bits = out.bitcast(slice, shape, bits);
  const std::string barrier_outputs = out.fresh();
  out.line("{} = \"stablehlo.optimization_barrier\"({}) : ({}) -> {}", barrier_outputs, as_bits,
           mlir_type(bits), mlir_type(bits));
  slice = out.bitcast(barrier_outputs, bits, shape);
  for (const Node* step : held.steps) {
    Shape next = shape;
    if (step->op == &kConvert) {
      next.dtype = step->results[0].dtype;
      const std::string result = out.fresh();
      out.line("{} = stablehlo.convert {} : ({}) -> {}", result, slice, mlir_type(shape),
               mlir_type(next));
      slice = result;
    } else if (!out.options().mesh.axes.empty()) {
      Sharding sharding = step->get<ShardingAttrs>().sharding;
      if (!sharding.dims.empty()) {
        sharding.dims.erase(sharding.dims.begin());
      }
      sharding.dims.resize(shape.dims.size());
      const std::string result = out.fresh();
      out.line("{} = \"sdy.sharding_constraint\"({}) {{sharding = {}}} : ({}) -> {}", result, slice,
               sharding_text(sharding), mlir_type(shape), mlir_type(shape));
      slice = result;
    }
    shape = next;
  }
  return slice;
}

/// The stack that the loop holds for an x that is the node's input. An x that a y overwrites is
/// held unconverted.
Held held(const Node& node, const Body& body, size_t input, const Emitter& out) {
  const bool is_replaced = std::ranges::any_of(
      body.in_place, [&](const auto& y_over_x) { return body.carries + y_over_x.second == input; });
  return is_replaced ? Held{node.input(input), {}} : held(node.input(input), out);
}

/// The xs whose next slice is fetched a step ahead, by their index among the node's inputs.
std::vector<size_t> streamed(const Node& node, const Body& body, const Emitter& out) {
  std::vector<size_t> all;
  for (size_t i = body.carries; i < body.carries + body.xs; ++i) {
    if (out.memory(held(node, body, i, out).stack) == Memory::STREAMED) {
      all.push_back(i);
    }
  }
  return all;
}

/// A step's slice of a stack in host memory, copied to the device. An index out of range is
/// clamped.
std::string emit_fetch(Emitter& out, const std::string& stack, const Shape& shape,
                       const std::string& index, const std::string& zero) {
  Shape slice = shape;
  slice.dims.erase(slice.dims.begin());
  return out.move(emit_slice(out, stack, shape, index, zero), slice, /*to_host=*/false);
}

/// True if a result is written into a stack in host memory.
bool is_on_host(const Node& node, const Body& body, size_t result, const Emitter& out) {
  const auto over =
      result < body.carries ? body.in_place.end() : body.in_place.find(result - body.carries);
  return over != body.in_place.end() &&
         out.memory(node.input(body.carries + over->second)) != Memory::DEVICE;
}

/// The state of the emitted `while`: step, carry, ys, xs (except those that ys overwrite),
/// captures, then the slices fetched ahead.
struct LoopState {
  std::vector<Shape> shapes;
  std::vector<std::string> initial;
  std::vector<size_t> places;  // indices of the node's inputs

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
  state.places.resize(node.inputs.size(), 0);
  const auto push = [&](const Shape& shape, std::string name) {
    state.shapes.push_back(shape);
    state.initial.push_back(std::move(name));
    return state.shapes.size() - 1;
  };
  push({DType::S32, {}}, emit_number(out, 0));
  for (size_t i = 0; i < body.carries; ++i) {
    state.places[i] = push(node.shape(i), out.name(node.input(i)));
  }
  for (size_t i = body.carries; i < node.results.size(); ++i) {
    if (const auto over = body.in_place.find(i - body.carries); over != body.in_place.end()) {
      const size_t input = body.carries + over->second;
      state.places[input] = push(node.shape(input), out.name(node.input(input)));
      continue;
    }
    const std::string zeros = out.fresh();
    const Shape& shape = node.results[i];
    const char* zero = is_float(shape.dtype) ? "0.0" : shape.dtype == DType::PRED ? "false" : "0";
    out.line("{} = stablehlo.constant dense<{}> : {}", zeros, zero, mlir_type(shape));
    push(shape, zeros);
  }
  for (size_t i = body.carries; i < node.inputs.size(); ++i) {
    const bool sliced = i < body.carries + body.xs;
    if (state.places[i] == 0) {
      const Tensor x = sliced ? held(node, body, i, out).stack : node.input(i);
      const std::string* bits = sliced ? out.bits(x) : nullptr;
      state.places[i] =
          bits != nullptr ? push({DType::U8, x.shape().dims}, *bits) : push(x.shape(), out.name(x));
    }
  }
  for (const size_t i : streamed(node, body, out)) {
    const Tensor stack = held(node, body, i, out).stack;
    const std::string first = emit_number(out, body.first + (body.reverse ? body.length - 1 : 0));
    const std::string zero = emit_number(out, 0);
    Shape slice = stack.shape();
    slice.dims.erase(slice.dims.begin());
    push(slice, emit_fetch(out, out.name(stack), stack.shape(), first, zero));
  }
  return state;
}

std::vector<std::string> emit_step(const Node& node, const Body& body, const LoopState& state,
                                   Emitter& out, const std::vector<std::string>& args) {
  const size_t results = node.results.size();
  const std::string one = emit_number(out, 1);
  const std::string zero = emit_number(out, 0);
  std::string index = args[0];
  if (body.reverse) {
    const std::string last = emit_number(out, body.length - 1);
    index = out.fresh();
    out.line("{} = stablehlo.subtract {}, {} : tensor<i32>", index, last, args[0]);
  }
  const std::string stored = index;
  if (body.first > 0) {
    const std::string first = emit_number(out, body.first);
    index = out.fresh();
    out.line("{} = stablehlo.add {}, {} : tensor<i32>", index, stored, first);
  }
  for (size_t i = 0; i < body.carries; ++i) {
    out.bind(body.graph->inputs()[i], args[1 + i]);
  }
  for (size_t i = body.carries; i < node.inputs.size(); ++i) {
    const std::string& arg = args[state.places[i]];
    const Tensor inside = body.graph->inputs()[i];
    if (i < body.carries + body.xs) {
      const Held x = held(node, body, i, out);
      const Memory memory = out.memory(x.stack);
      if (memory == Memory::STREAMED) {
        continue;  // bound below
      }
      const Shape& stack = state.shapes[state.places[i]];
      std::string slice = memory == Memory::HOST ? emit_fetch(out, arg, stack, index, zero)
                                                 : emit_slice(out, arg, stack, index, zero);
      const bool is_bits = stack != x.stack.shape();
      if (is_bits) {
        slice = out.bitcast(slice, {stack.dtype, inside.shape().dims},
                            {x.stack.dtype(), inside.shape().dims});
      }
      out.bind(inside, emit_held_steps(out, x, slice));
      if (x.steps.empty() && memory == Memory::DEVICE && !is_bits) {
        out.bind_slice(inside, {arg, node.shape(i), index});
      }
    } else {
      out.bind(inside, arg);
      if (const Memory memory = out.memory(node.input(i)); memory != Memory::DEVICE) {
        out.bind_memory(inside, memory);
      }
    }
  }
  std::vector<std::string> next = args;
  const std::vector<size_t> ahead = streamed(node, body, out);
  if (!ahead.empty()) {
    const std::string after = out.fresh();
    out.line("{} = stablehlo.{} {}, {} : tensor<i32>", after, body.reverse ? "subtract" : "add",
             index, one);
    const size_t first = args.size() - ahead.size();
    for (size_t k = 0; k < ahead.size(); ++k) {
      const size_t i = ahead[k];
      const Held x = held(node, body, i, out);
      out.bind(body.graph->inputs()[i], emit_held_steps(out, x, args[first + k]));
      next[first + k] = emit_fetch(out, args[state.places[i]], x.stack.shape(), after, zero);
    }
  }
  out.body(*body.graph, body.outputs);
  next[0] = out.fresh();
  out.line("{} = stablehlo.add {}, {} : tensor<i32>", next[0], args[0], one);
  for (size_t i = 0; i < results; ++i) {
    std::string value = out.name(body.outputs[i]);
    if (i >= body.carries) {
      if (is_on_host(node, body, i, out)) {
        value = out.move(value, body.outputs[i].shape(), /*to_host=*/true);
      }
      value = emit_store(out, args[1 + i], node.results[i], value, stored, zero);
    }
    next[1 + i] = std::move(value);
  }
  return next;
}

}  // namespace

void emit_scan(const Node& node, Emitter& out) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const LoopState state = loop_state(node, body, out);
  const std::string result = out.fresh();
  out.line("{}:{} = \"stablehlo.while\"({}) ({{", result, state.shapes.size(),
           joined(state.initial));
  const std::vector<std::string> condition_args = state.block_arguments(out);
  out.indent(1);
  const std::string limit = emit_number(out, body.length);
  const std::string more = out.fresh();
  out.line("{} = stablehlo.compare LT, {}, {}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>",
           more, condition_args[0], limit);
  out.line("\"stablehlo.return\"({}) : (tensor<i1>) -> ()", more);
  out.indent(-1);
  out.line("}}, {{");
  const std::vector<std::string> args = state.block_arguments(out);
  out.indent(1);
  const std::vector<std::string> next = emit_step(node, body, state, out, args);
  out.line("\"stablehlo.return\"({}) : ({}) -> ()", joined(next), state.types());
  out.indent(-1);
  out.line("}}) : ({}) -> ({}){}", state.types(), state.types(), out.location(node));
  for (size_t i = 0; i < node.results.size(); ++i) {
    out.bind(const_cast<Node&>(node).result(static_cast<int64_t>(i)),
             fmt::format("{}#{}", result, 1 + i));
  }
}

}  // namespace kinema
