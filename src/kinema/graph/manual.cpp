#include "kinema/graph/manual.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "kinema/core/error.h"
#include "kinema/graph/body.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/attrs.h"

namespace kinema {
namespace {

/// The spec, and the mesh axes along which devices differ: those of shardings and those of
/// collectives.
struct ManualAttrs {
  ManualSpec spec;
  std::vector<std::string> axes;
};

std::vector<std::string> named_axes(const Sharding& sharding) {
  std::vector<std::string> all;
  for (const auto& axes : sharding.dims) {
    all.insert(all.end(), axes.begin(), axes.end());
  }
  return all;
}

void check_sharding(const Shape& shape, const Sharding& sharding) {
  check(sharding.dims.empty() || sharding.dims.size() == shape.dims.size(),
        "[manual] a sharding has {} axes but belongs to {}", sharding.dims.size(),
        to_string(shape));
  check_distinct_axes(named_axes(sharding));
}

/// One device's part.
Shape local_shape(Shape shape, const Sharding& sharding, const MeshAxes& mesh) {
  check_sharding(shape, sharding);
  const Shape whole = shape;
  for (size_t i = 0; i < sharding.dims.size(); ++i) {
    const int64_t parts = parts_of(mesh, sharding.dims[i]);
    check(shape.dims[i] % parts == 0, "[manual] axis {} of {} cannot be split into {} equal parts",
          i, to_string(whole), parts);
    shape.dims[i] /= parts;
  }
  return shape;
}

Shape global_shape(Shape shape, const Sharding& sharding, const MeshAxes& mesh) {
  check_sharding(shape, sharding);
  for (size_t i = 0; i < sharding.dims.size(); ++i) {
    shape.dims[i] *= parts_of(mesh, sharding.dims[i]);
  }
  return shape;
}

/// Axes of the collectives of a body and of the bodies inside it.
void collect_axes(const Graph& graph, std::set<std::string>& axes) {
  for (const Node& node : graph.nodes()) {
    if (const auto* collective = std::any_cast<CollectiveAttrs>(&node.attrs)) {
      axes.insert(collective->groups.axes.begin(), collective->groups.axes.end());
    }
    if (const auto* body = std::any_cast<std::shared_ptr<Body>>(&node.attrs)) {
      collect_axes(*(*body)->graph, axes);
    }
  }
}

std::vector<std::string> working_axes(const ManualSpec& spec, const Graph& body) {
  std::set<std::string> found;
  collect_axes(body, found);
  for (const auto& shardings : {spec.in, spec.out}) {
    for (const Sharding& sharding : shardings) {
      const std::vector<std::string> named = named_axes(sharding);
      found.insert(named.begin(), named.end());
    }
  }
  std::vector<std::string> in_order;
  for (const auto& [axis, size] : spec.mesh.axes) {
    if (found.contains(axis)) {
      in_order.push_back(axis);
    }
  }
  return in_order;
}

/// The axes of the region along which a value is replicated.
std::vector<std::string> copied_axes(const ManualAttrs& attrs, const Sharding& sharding) {
  const std::vector<std::string> split = named_axes(sharding);
  std::vector<std::string> copied;
  for (const std::string& axis : attrs.axes) {
    if (std::ranges::find(split, axis) == split.end()) {
      copied.push_back(axis);
    }
  }
  return copied;
}

struct Kept {
  Tensor outer;
  Sharding sharding;
};

/// An input, a result or an additional result of the body, for the backward region. Devices may
/// differ along every axis of the region, so the result stacks their parts on its first axis.
Kept keep(Node& node, Body& body, Tensor inside) {
  auto& attrs = *std::any_cast<ManualAttrs>(&body.settings);
  const auto inputs = body.graph->inputs();
  if (const auto found = std::ranges::find(inputs, inside); found != inputs.end()) {
    const auto j = static_cast<size_t>(found - inputs.begin());
    return {node.input(j), attrs.spec.in[j]};
  }
  if (const auto found = std::ranges::find(body.outputs, inside); found != body.outputs.end()) {
    const auto i = static_cast<size_t>(found - body.outputs.begin());
    return {node.result(static_cast<int64_t>(i)), attrs.spec.out[i]};
  }
  if (const auto found = body.exported.find(key_of(inside)); found != body.exported.end()) {
    return {node.result(found->second), attrs.spec.out[static_cast<size_t>(found->second)]};
  }
  const Tensor part = inside.rank() == 0 ? reshape(inside, {1}) : inside;
  Sharding sharding;
  sharding.dims.resize(static_cast<size_t>(part.rank()));
  sharding.dims[0] = attrs.axes;
  const auto index = static_cast<int64_t>(node.results.size());
  body.outputs.push_back(part);
  body.exported[key_of(inside)] = index;
  node.results.push_back(global_shape(part.shape(), sharding, attrs.spec.mesh));
  attrs.spec.out.push_back(sharding);
  return {node.result(index), sharding};
}

// The derivative of the region is a linear map of the devices' parts, and so is its transpose: a
// result with r copies is their mean, so each copy gets 1/r of the cotangent, and an input's
// gradient is the sum over its copies.
Cotangents manual_gradient(Node& node, std::span<const Tensor> dys,
                           const std::vector<bool>& wanted) {
  Body& body = *node.get<std::shared_ptr<Body>>();
  const ManualAttrs attrs = *std::any_cast<ManualAttrs>(&body.settings);
  const MeshAxes& mesh = attrs.spec.mesh;
  std::vector<bool> has_cotangent;
  ManualSpec back{.mesh = mesh};
  std::vector<Tensor> inputs;
  std::vector<int64_t> copies;
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    has_cotangent.push_back(i < dys.size() && dys[i]);
    if (has_cotangent.back()) {
      inputs.push_back(dys[i]);
      back.in.push_back(attrs.spec.out[i]);
      copies.push_back(parts_of(mesh, copied_axes(attrs, attrs.spec.out[i])));
    }
  }
  const size_t cotangents = inputs.size();
  const BodyGradient gradient(body, has_cotangent, wanted);
  std::map<TensorKey, size_t> kept;
  for (const Tensor inside : gradient.kept()) {
    const Kept one = keep(node, body, inside);
    kept[key_of(inside)] = inputs.size();
    inputs.push_back(one.outer);
    back.in.push_back(one.sharding);
  }
  std::vector<size_t> found;
  for (size_t j = 0; j < wanted.size(); ++j) {
    if (wanted[j] && gradient.has_gradient(j)) {
      found.push_back(j);
      back.out.push_back(attrs.spec.in[j]);
    }
  }
  if (found.empty()) {
    return Cotangents(wanted.size());
  }
  const auto run = [&](std::span<const Tensor> parts) {
    std::vector<Tensor> given(parts.begin(), parts.begin() + static_cast<int64_t>(cotangents));
    for (size_t i = 0; i < given.size(); ++i) {
      given[i] = copies[i] > 1 ? given[i] / static_cast<double>(copies[i]) : given[i];
    }
    const auto value = [&](Tensor inside) {
      const Tensor part = parts[kept.at(key_of(inside))];
      return part.rank() == inside.rank() ? part : reshape(part, {});
    };
    const std::vector<Tensor> grads = gradient.build(parts[0].graph(), value, given);
    std::vector<Tensor> results;
    for (const size_t j : found) {
      results.push_back(
          all_reduce_sum(grads[j], device_groups(mesh, copied_axes(attrs, attrs.spec.in[j]))));
    }
    return results;
  };
  const std::vector<Tensor> grads = manual(inputs, back, run);
  Cotangents results(wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    results[found[i]] = grads[i];
  }
  return results;
}

std::string shardings_text(std::span<const Sharding> shardings, std::span<const Shape> shapes) {
  std::string text;
  for (size_t i = 0; i < shardings.size(); ++i) {
    Sharding sharding = shardings[i];
    sharding.dims.resize(shapes[i].dims.size());
    text += (i == 0 ? "" : ", ") + sharding_text(sharding).substr(sizeof("#sdy.sharding") - 1);
  }
  return text;
}

std::string types_text(std::span<const Shape> shapes) {
  std::string text;
  for (const Shape& shape : shapes) {
    text += (text.empty() ? "" : ", ") + mlir_type(shape);
  }
  return text;
}

/// With one device, the part is the full value. Compilers for one device do not support regions.
void emit_inline(const Node& node, const Body& body, Emitter& out) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    out.bind(body.graph->inputs()[i], out.name(node.input(i)));
  }
  out.body(*body.graph, body.outputs);
  for (size_t i = 0; i < node.results.size(); ++i) {
    out.bind(const_cast<Node&>(node).result(static_cast<int64_t>(i)), out.name(body.outputs[i]));
  }
}

void emit_manual(const Node& node, Emitter& out) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const ManualSpec& spec = std::any_cast<ManualAttrs>(&body.settings)->spec;
  check(out.options().mesh == spec.mesh,
        "[manual] a region was built for another mesh than the program is written for");
  if (std::ranges::all_of(spec.mesh.axes, [](const auto& axis) { return axis.second == 1; })) {
    return emit_inline(node, body, out);
  }
  std::string operands;
  std::string arguments;
  std::vector<Shape> types;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    operands += (i == 0 ? "" : ", ") + out.name(node.input(i));
    types.push_back(node.shape(i));
    const Tensor inside = body.graph->inputs()[i];
    out.bind(inside, out.fresh());
    arguments +=
        fmt::format("{}{}: {}", i == 0 ? "" : ", ", out.name(inside), mlir_type(inside.shape()));
  }
  std::string axes;
  for (const auto& [axis, size] : spec.mesh.axes) {
    axes += fmt::format("{}\"{}\"", axes.empty() ? "" : ", ", axis);
  }
  const size_t count = node.results.size();
  const std::string name = out.fresh();
  out.line(
      "{}{} = sdy.manual_computation({}) in_shardings=[{}] out_shardings=[{}] manual_axes={{{}}} "
      "({}) {{",
      name, count > 1 ? fmt::format(":{}", count) : "", operands, shardings_text(spec.in, types),
      shardings_text(spec.out, node.results), axes, arguments);
  out.indent(1);
  out.enter_manual(1);
  out.body(*body.graph, body.outputs);
  std::string results;
  std::vector<Shape> parts;
  for (size_t i = 0; i < count; ++i) {
    results += (i == 0 ? "" : ", ") + out.name(body.outputs[i]);
    parts.push_back(body.outputs[i].shape());
  }
  out.line("sdy.return {} : {}", results, types_text(parts));
  out.enter_manual(-1);
  out.indent(-1);
  out.line("}} : ({}) -> ({}){}", types_text(types), types_text(node.results), out.location(node));
  for (size_t i = 0; i < count; ++i) {
    out.bind(const_cast<Node&>(node).result(static_cast<int64_t>(i)),
             count > 1 ? fmt::format("{}#{}", name, i) : name);
  }
}

}  // namespace

// ys = body(parts of the inputs) on every device
constinit const Op kManual{
    .name = "manual", .infer = nullptr, .gradient = manual_gradient, .emit = emit_manual};

std::vector<Tensor> manual(
    std::vector<Tensor> inputs, ManualSpec spec,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  check(inputs.size() == spec.in.size(), "[manual] {} inputs but {} shardings for them",
        inputs.size(), spec.in.size());
  Graph& parent = innermost(inputs);
  auto inside = std::make_shared<Body>();
  inside->graph = std::make_unique<Graph>(&parent);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(inside->graph->input(local_shape(inputs[i].shape(), spec.in[i], spec.mesh)));
  }
  const std::vector<Tensor> ys = body(parts);
  check(!ys.empty() && ys.size() == spec.out.size(),
        "[manual] the body gives {} results but {} shardings were given for them", ys.size(),
        spec.out.size());
  std::vector<Shape> results;
  for (size_t i = 0; i < ys.size(); ++i) {
    inside->outputs.push_back(inside->graph->capture(ys[i]));
    results.push_back(global_shape(ys[i].shape(), spec.out[i], spec.mesh));
  }
  const auto captures = inside->graph->captures();
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  spec.in.resize(inputs.size());
  std::vector<std::string> axes = working_axes(spec, *inside->graph);
  inside->settings = ManualAttrs{std::move(spec), std::move(axes)};
  Node& node = parent.add_multi(kManual, std::move(inputs), inside, std::move(results));
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < ys.size(); ++i) {
    outputs.push_back(node.result(static_cast<int64_t>(i)));
  }
  return outputs;
}

int64_t devices_of(const Body& manual_region) {
  int64_t devices = 1;
  for (const auto& [axis, size] :
       std::any_cast<const ManualAttrs&>(manual_region.settings).spec.mesh.axes) {
    devices *= size;
  }
  return devices;
}

}  // namespace kinema
