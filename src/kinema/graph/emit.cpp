#include "kinema/graph/emit.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema {
namespace {

/// XLA's name for pinned host memory.
constexpr const char* kHostMemory = "pinned_host";

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += (c < 0x20 || c == 0x7f) ? ' ' : c;
  }
  return out + '"';
}

std::vector<bool> needed_nodes(const Graph& graph, std::span<const Tensor> outputs) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const Tensor x : outputs) {
    needed[x.node().id] = true;
  }
  for (int64_t id = static_cast<int64_t>(needed.size()) - 1; id >= 0; --id) {
    if (needed[id]) {
      for (const Tensor x : graph.nodes()[id].inputs) {
        needed[x.node().id] = true;
      }
    }
  }
  return needed;
}

std::string joined_types(std::span<const Shape> shapes) {
  std::string out;
  for (const Shape& shape : shapes) {
    out += (out.empty() ? "" : ", ") + mlir_type(shape);
  }
  return out;
}

}  // namespace

std::string sharding_text(const Sharding& sharding) {
  std::string dims;
  for (const auto& axes : sharding.dims) {
    std::string names;
    for (const std::string& axis : axes) {
      names += (names.empty() ? "" : ", ") + in_quotes(axis);
    }
    dims += (dims.empty() ? "{" : ", {") + names + "}";
  }
  return fmt::format("#sdy.sharding<@mesh, [{}]>", dims);
}

const std::string& Emitter::name(Tensor x) const {
  const auto found = names_.find({&x.node(), x.result()});
  check(found != names_.end(), "[emit] `{}` is used before it is written", x.node().op->name);
  return found->second;
}

int64_t Emitter::uses(Tensor x) const {
  const auto found = uses_.find({&x.node(), x.result()});
  return found == uses_.end() ? 0 : found->second;
}

void Emitter::bind(Tensor x, std::string text) {
  names_[{&x.node(), x.result()}] = std::move(text);
}

void Emitter::bind_slice(Tensor x, StackedSlice slice) {
  slices_[{&x.node(), x.result()}] = std::move(slice);
}

const StackedSlice* Emitter::slice_of(Tensor x) const {
  const auto found = slices_.find({&x.node(), x.result()});
  return found == slices_.end() ? nullptr : &found->second;
}

Memory Emitter::memory(Tensor x) const {
  const auto found = memories_.find({&x.node(), x.result()});
  return found == memories_.end() ? Memory::DEVICE : found->second;
}

const std::string* Emitter::bits(Tensor x) const {
  const auto found = bits_.find({&x.node(), x.result()});
  return found == bits_.end() ? nullptr : &found->second;
}

std::string Emitter::bitcast(const std::string& x, const Shape& from, const Shape& to) {
  const std::string result = fresh();
  line("{} = stablehlo.bitcast_convert {} : ({}) -> {}", result, x, mlir_type(from), mlir_type(to));
  return result;
}

std::string Emitter::move(const std::string& x, const Shape& shape, bool to_host) {
  const std::string result = fresh();
  line(
      "{} = \"stablehlo.custom_call\"({}) {{call_target_name = \"annotate_device_placement\", "
      "has_side_effect = true, mhlo.frontend_attributes = {{_xla_buffer_placement = \"{}\"}}}} : "
      "({}) -> {}",
      result, x, to_host ? kHostMemory : "device", mlir_type(shape), mlir_type(shape));
  return result;
}

std::string Emitter::fresh() { return fmt::format("%{}", next_++); }

std::string Emitter::location(const Node& node) const {
  return fmt::format(" loc({})",
                     in_quotes(node.scope->empty() ? std::string(node.op->name)
                                                   : *node.scope + "/" + node.op->name));
}

void Emitter::raw_line(const std::string& text) {
  text_.append(static_cast<size_t>(2 * indent_), ' ');
  text_ += text;
  text_ += '\n';
}

void Emitter::generic(const Node& node, const std::string& mlir, const std::string& attributes) {
  std::string operands;
  std::vector<Shape> types;
  for (const Tensor x : node.inputs) {
    operands += (operands.empty() ? "" : ", ") + name(x);
    types.push_back(x.shape());
  }
  const std::string result = fresh();
  const size_t count = node.results.size();
  raw_line(fmt::format("{}{} = \"{}\"({}){} : ({}) -> ({}){}", result,
                       count > 1 ? fmt::format(":{}", count) : "", mlir, operands,
                       attributes.empty() ? "" : " {" + attributes + "}", joined_types(types),
                       joined_types(node.results), location(node)));
  for (size_t i = 0; i < count; ++i) {
    bind({const_cast<Node*>(&node), static_cast<int64_t>(i)},
         count > 1 ? fmt::format("{}#{}", result, i) : result);
  }
}

void Emitter::plain(const Node& node) {
  if (node.op->emit != nullptr) {
    node.op->emit(node, *this);
  } else {
    generic(node, node.op->mlir,
            node.op->attributes != nullptr ? node.op->attributes(node) : std::string());
  }
}

void Emitter::body(const Graph& graph, std::span<const Tensor> outputs) {
  const std::vector<bool> needed = needed_nodes(graph, outputs);
  for (const Tensor x : outputs) {
    ++uses_[{&x.node(), x.result()}];
  }
  for (const Node& node : graph.nodes()) {
    if (needed[node.id]) {
      for (const Tensor x : node.inputs) {
        ++uses_[{&x.node(), x.result()}];
      }
    }
  }
  for (const Node& node : graph.nodes()) {
    if (!needed[node.id] || node.op == &kInput) {
      continue;
    }
    if (!options_.lowering || !options_.lowering(node, *this)) {
      plain(node);
    }
  }
}

namespace {

/// ` {sdy.sharding = ..., mhlo.memory_kind = "pinned_host"}` of an argument or result, or nothing.
std::string attribute_text(std::vector<std::string> attributes, const Shape& shape, bool on_host,
                           const Sharding& sharding, const EmitOptions& options) {
  if (!options.mesh.axes.empty() && !sharding.dims.empty()) {
    attributes.push_back(fmt::format("sdy.sharding = {}", sharding_text(sharding)));
  }
  if (on_host) {
    attributes.push_back(fmt::format("mhlo.memory_kind = \"{}\"", kHostMemory));
  }
  if (on_host && byte_size(shape.dtype) == 1 && !options.host_byte_tiles.empty()) {
    std::string order;
    for (int64_t axis = shape.rank(); axis-- > 0;) {
      order += fmt::format("{}{}", axis, axis > 0 ? "," : "");
    }
    attributes.push_back(
        fmt::format("mhlo.layout_mode = \"{{{}:{}}}\"", order, options.host_byte_tiles));
  }
  return attributes.empty() ? "" : fmt::format(" {{{}}}", fmt::join(attributes, ", "));
}

std::string arguments(const Graph& graph, const EmitOptions& options, Emitter& out) {
  std::string text;
  for (const Tensor x : graph.inputs()) {
    const auto& input = x.node().get<InputAttrs>();
    std::vector<std::string> attributes;
    if (const auto found = options.donate.find(input.index); found != options.donate.end()) {
      attributes.push_back(fmt::format("tf.aliasing_output = {} : i32", found->second));
    }
    const bool on_host = options.host_offload && input.memory != Memory::DEVICE;
    const std::string name = fmt::format("%arg{}", input.index);
    const bool is_bits = options.float8_as_bits && is_f8(x.dtype()) && !on_host &&
                         !options.donate.contains(input.index);
    const Shape shape{is_bits ? DType::U8 : x.dtype(), x.shape().dims};
    out.bind(x, name);
    if (is_bits) {
      out.bind_bits(x, name);
    }
    if (on_host) {
      out.bind_memory(x, input.memory);
    }
    text += fmt::format(
        "{}{}: {}{}{}", text.empty() ? "" : ", ", name, mlir_type(shape),
        attribute_text(std::move(attributes), x.shape(), on_host, input.sharding, options),
        input.name.empty() ? "" : fmt::format(" loc({})", in_quotes(input.name)));
  }
  return text;
}

std::string mesh_line(const MeshAxes& mesh) {
  std::string axes;
  for (const auto& [name, size] : mesh.axes) {
    axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", in_quotes(name), size);
  }
  return fmt::format("  sdy.mesh @mesh = <[{}]>\n", axes);
}

}  // namespace

std::string emit(const Graph& graph, std::span<const Tensor> outputs, const EmitOptions& options) {
  Emitter out(options);
  const std::string args = arguments(graph, options, out);
  out.indent(1);
  for (const Tensor x : graph.inputs()) {
    if (const std::string* bits = out.bits(x)) {
      out.bind(x, out.bitcast(*bits, {DType::U8, x.shape().dims}, x.shape()));
    }
  }
  out.body(graph, outputs);
  std::string results;
  std::string names;
  std::string types;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string type = mlir_type(outputs[i].shape());
    const bool on_host =
        options.host_offload && options.host_outputs.contains(static_cast<int64_t>(i));
    results +=
        fmt::format("{}{}{}", i == 0 ? "" : ", ", type,
                    attribute_text({}, outputs[i].shape(), on_host,
                                   i < options.output_shardings.size() ? options.output_shardings[i]
                                                                       : Sharding(),
                                   options));
    names += (i == 0 ? "" : ", ") + out.name(outputs[i]);
    types += (i == 0 ? "" : ", ") + type;
  }
  out.line("return{}{}{}{}", outputs.empty() ? "" : " ", names, outputs.empty() ? "" : " : ",
           types);
  return fmt::format("module @kinema {{\n{}  func.func public @main({}) -> ({}) {{\n{}  }}\n}}\n",
                     options.mesh.axes.empty() ? "" : mesh_line(options.mesh), args, results,
                     out.take());
}

}  // namespace kinema
