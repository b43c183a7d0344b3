#include "kinema/kernels/cpu/lowering.h"

#include <algorithm>

#include <fmt/ranges.h>

#include <array>
#include <span>

#include "kinema/core/trace.h"
#include "kinema/graph/body.h"
#include "kinema/graph/fused.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/kernels/cpu/attention.h"
#include "kinema/kernels/cpu/convolution.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/cpu/strided_dot.h"

namespace kinema::kernels {
namespace {

/// A tensor read through its transposes: the dense array behind it and a stride per logical axis.
struct View {
  Tensor stored;
  Dims strides;
};

View look_through(Tensor x) {
  if (x.node().op != &kTranspose) {
    return {x, dense_strides(x.shape().dims)};
  }
  const View inner = look_through(x.node().input(0));
  View view{inner.stored, {}};
  for (const int64_t axis : x.node().get<TransposeAttrs>().order) {
    view.strides.push_back(inner.strides[static_cast<size_t>(axis)]);
  }
  return view;
}

std::string layout(const Shape& shape) {
  std::vector<int64_t> minor_to_major;
  for (int64_t i = shape.rank() - 1; i >= 0; --i) {
    minor_to_major.push_back(i);
  }
  return fmt::format("dense<[{}]> : tensor<{}xindex>", fmt::join(minor_to_major, ", "),
                     shape.rank());
}

/// What every typed custom call says of its operands: names, types, row-major layouts.
struct Operands {
  std::vector<std::string> names, types, layouts;
};

/// The operands of a dot, then a position for each that is a slice of a loop's stack: the kernel
/// reads slices where they lie. A copy of each layer's weights would cost as much as they do, and
/// the compiler makes it in f32 whatever they are.
struct DotOperands : Operands {
  std::vector<int64_t> stacked;  // 1 for a slice
};

DotOperands dot_operands(Tensor a, Tensor b, const Emitter& out) {
  DotOperands operands;
  const auto add = [&](const std::string& name, const Shape& shape) {
    operands.names.push_back(name);
    operands.types.push_back(mlir_type(shape));
    operands.layouts.push_back(layout(shape));
  };
  for (const Tensor x : {a, b}) {
    const StackedSlice* slice = out.slice_of(x);
    add(slice != nullptr ? slice->stack : out.name(x), slice != nullptr ? slice->shape : x.shape());
    operands.stacked.push_back(slice != nullptr ? 1 : 0);
  }
  for (const Tensor x : {a, b}) {
    if (const StackedSlice* slice = out.slice_of(x)) {
      add(slice->index, {DType::S32, {}});
    }
  }
  return operands;
}

bool covered(const Node& dot, const CpuLoweringOptions& options) {
  const DType in = dot.shape(0).dtype;
  const DType out = dot.results[0].dtype;
  return (in == DType::F32 && options.f32 && out == DType::F32) ||
         (in == DType::BF16 && options.bf16 && (out == DType::F32 || out == DType::BF16));
}

/// The attribute by which a traced kernel knows its place in the model: `blocks/attn1/to_q`.
std::string label_of(const Node& node, const CpuLoweringOptions& options) {
  if (!options.trace) {
    return "";
  }
  const std::string name = node.scope->empty() ? std::string(node.op->name) : *node.scope;
  return fmt::format(", scope = {} : i64", trace::label(name).number);
}

/// The first `count` results of a node, the first `in_place` of them written over the operands of
/// the same number.
struct Results {
  size_t count = 1;
  size_t in_place = 0;
};

std::string in_place(const Results& results) {
  std::vector<std::string> aliases;
  for (size_t i = 0; i < results.in_place; ++i) {
    aliases.push_back(fmt::format(
        "#stablehlo.output_operand_alias<output_tuple_indices = [{}], operand_index = {}, "
        "operand_tuple_indices = []>",
        results.count == 1 ? "" : std::to_string(i), i));
  }
  return aliases.empty() ? ""
                         : fmt::format(", output_operand_aliases = [{}]", fmt::join(aliases, ", "));
}

/// Writes a typed call, and binds results of `written` to its own. `location` is that of the node
/// that the call computes.
void write_call(const Node& written, const char* target, const std::string& config,
                const Operands& in, Emitter& out, const std::string& location,
                const Results& results = {}) {
  const size_t count = results.count;
  std::vector<std::string> types, layouts;
  for (const Shape& result : std::span(written.results).first(count)) {
    types.push_back(mlir_type(result));
    layouts.push_back(layout(result));
  }
  const std::string name = out.fresh();
  out.line(
      "{}{} = \"stablehlo.custom_call\"({}) {{call_target_name = \"{}\", api_version = 4 : i32, "
      "backend_config = {{{}}}, operand_layouts = [{}], result_layouts = [{}]{}}} : ({}) -> ({}){}",
      name, count > 1 ? fmt::format(":{}", count) : "", fmt::join(in.names, ", "), target, config,
      fmt::join(in.layouts, ", "), fmt::join(layouts, ", "), in_place(results),
      fmt::join(in.types, ", "), fmt::join(types, ", "), location);
  for (size_t i = 0; i < count; ++i) {
    out.bind(const_cast<Node&>(written).result(static_cast<int64_t>(i)),
             count > 1 ? fmt::format("{}#{}", name, i) : name);
  }
}

/// Writes `dot` with its result stored as `written` (the dot itself or a transpose of it);
/// `c_strides` are those of the dot's axes in that array.
bool write_dot(const Node& dot, const Node& written, const Dims& c_strides, Emitter& out,
               const CpuLoweringOptions& options) {
  if (!covered(dot, options)) {
    return false;
  }
  const View a = look_through(dot.input(0));
  const View b = look_through(dot.input(1));
  const auto plan = strided_dot(dot.shape(0).dims, a.strides, dot.shape(1).dims, b.strides,
                                c_strides, dot.get<DotAttrs>().dims);
  if (!plan || plan->flops() < options.min_flops) {
    return false;
  }
  const DotOperands in = dot_operands(a.stored, b.stored, out);
  write_call(written, options.trace ? kTracedDotTarget : kDotTarget,
             fmt::format("plan = array<i64: {}>, stacked = array<i64: {}>{}",
                         fmt::join(to_words(*plan), ", "), fmt::join(in.stacked, ", "),
                         label_of(dot, options)),
             in, out, out.location(dot));
  return true;
}

/// A transpose that is the only reader of a dot: the product is stored transposed at once.
bool write_transposed_dot(const Node& transpose, Emitter& out, const CpuLoweringOptions& options) {
  const Tensor product = transpose.input(0);
  if (product.node().op != &kDotGeneral || out.uses(product) != 1) {
    return false;
  }
  const Dims strides = dense_strides(transpose.results[0].dims);
  const std::vector<int64_t>& order = transpose.get<TransposeAttrs>().order;
  Dims c_strides(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    c_strides[static_cast<size_t>(order[i])] = strides[i];
  }
  return write_dot(product.node(), transpose, c_strides, out, options);
}

Operands operands_of(std::span<const Tensor> inputs, const Emitter& out) {
  Operands operands;
  for (const Tensor input : inputs) {
    operands.names.push_back(out.name(input));
    operands.types.push_back(mlir_type(input.shape()));
    operands.layouts.push_back(layout(input.shape()));
  }
  return operands;
}

Operands operands_of(const Node& node, const Emitter& out) { return operands_of(node.inputs, out); }

/// The kernels that `w` is some frames of, or w itself. They are read where they lie: with the
/// copies that the first chunk of a video needs, a VAE would take a third more memory.
Tensor stored_kernels(Tensor w, ConvolutionPlan& plan) {
  if (w.node().op != &kSlice || w.rank() != 5) {
    return w;
  }
  const auto& slice = w.node().get<SliceAttrs>();
  if (slice.axis != 2 || slice.stride != 1) {
    return w;
  }
  const Tensor whole = w.node().input(0);
  plan.stored = whole.dim(2);
  plan.first = slice.start;
  return whole;
}

bool write_convolution(const Node& node, Emitter& out, const CpuLoweringOptions& options) {
  const DType dtype = node.results[0].dtype;
  if (!(dtype == DType::F32 && options.f32) && !(dtype == DType::BF16 && options.bf16)) {
    return false;
  }
  auto plan = convolution_plan(node.shape(0).dims, node.shape(1).dims, node.results[0].dims,
                               node.get<ConvolutionAttrs>());
  if (!plan || plan->flops() < options.min_convolution_flops ||
      !has_fast_convolution(*plan, dtype)) {
    return false;
  }
  const Tensor kernels = stored_kernels(node.input(1), *plan);
  write_call(node, options.trace ? kTracedConvolutionTarget : kConvolutionTarget,
             fmt::format("plan = array<i64: {}>{}", fmt::join(to_words(*plan), ", "),
                         label_of(node, options)),
             operands_of(std::array{node.input(0), kernels}, out), out, out.location(node));
  return true;
}

/// What the compiler forgets before it orders the program's operations: recomputation would be
/// moved up beside the forward pass. A call that does nothing, in place, is an order it must keep.
bool write_barrier(const Node& node, Emitter& out) {
  const size_t count = node.inputs.size();
  write_call(node, kBarrierTarget, "", operands_of(node, out), out, out.location(node),
             {.count = count, .in_place = count});
  return true;
}

/// Whether these are the dtypes of all that a node reads.
bool f32_or_bf16(const Node& node) {
  return std::ranges::all_of(node.inputs, [](const Tensor x) {
    return x.dtype() == DType::F32 || x.dtype() == DType::BF16;
  });
}

/// The update reads and writes parameter and moments in one pass and in place: the compiler's own
/// three loops would need copies of them.
bool write_adamw(const Node& node, const AdamWSettings& settings, Emitter& out) {
  if (!f32_or_bf16(node)) {
    return false;
  }
  write_call(
      node, kAdamWTarget,
      fmt::format("settings = array<f64: {:.17e}, {:.17e}, {:.17e}, {:.17e}, {:.17e}>", settings.b1,
                  settings.b2, settings.eps, settings.weight_decay, settings.max_value),
      operands_of(node, out), out, out.location(node), {.count = 3, .in_place = 3});
  return true;
}

/// One pass over gradients as they lie: the compiler's own would write them anew, widened to f32.
bool write_gradient_sizes(const Node& node, const GradientSizesSettings& settings, Emitter& out) {
  if (!f32_or_bf16(node)) {
    return false;
  }
  write_call(node, kGradientSizesTarget,
             fmt::format("rows = array<i64: {}>, max_value = {:.17e} : f64",
                         fmt::join(settings.rows, ", "), settings.max_value),
             operands_of(node, out), out, out.location(node), {.count = 2});
  return true;
}

/// q, k, v and perhaps a bias that broadcasts to [b, n, s, t].
std::optional<AttentionPlan> attention_plan(const Node& node) {
  const Dims& q = node.shape(0).dims;
  const Dims& k = node.shape(1).dims;
  AttentionPlan plan{q[0], q[1], k[1], q[2], q[3]};
  if (node.inputs.size() > 3) {
    const Shape& bias = node.shape(3);
    const Dims whole{q[0], q[2], q[1], k[1]};
    if (bias.dtype != DType::F32 || bias.rank() != 4) {
      return std::nullopt;
    }
    const Dims strides = dense_strides(bias.dims);
    for (size_t i = 0; i < 4; ++i) {
      if (bias.dims[i] != whole[i] && bias.dims[i] != 1) {
        return std::nullopt;
      }
      plan.bias[i] = bias.dims[i] == 1 ? 0 : strides[i];
    }
  }
  return plan;
}

bool write_attention(const Node& node, double scale, Emitter& out,
                     const CpuLoweringOptions& options) {
  const DType dtype = node.results[0].dtype;
  const bool covered =
      (dtype == DType::F32 && options.f32) || (dtype == DType::BF16 && options.bf16);
  const auto plan = attention_plan(node);
  if (!covered || !plan || plan->flops() < options.min_attention_flops) {
    return false;
  }
  write_call(node, options.trace ? kTracedAttentionTarget : kAttentionTarget,
             fmt::format("plan = array<i64: {}>, scale = {:.17e} : f64{}",
                         fmt::join(to_words(*plan), ", "), scale, label_of(node, options)),
             operands_of(node, out), out, out.location(node));
  return true;
}

bool write_fused(const Node& node, Emitter& out, const CpuLoweringOptions& options) {
  const auto& body = *node.get<std::shared_ptr<Body>>();
  if (const auto* adamw = std::any_cast<AdamWSettings>(&body.settings)) {
    return node.results.size() == 3 && write_adamw(node, *adamw, out);
  }
  if (const auto* attention = std::any_cast<AttentionSettings>(&body.settings)) {
    return node.results.size() == 1 && write_attention(node, attention->scale, out, options);
  }
  if (const auto* flash = std::any_cast<FlashAttentionSettings>(&body.settings)) {
    // The kernel gives y only: what is differentiated reads the sums of the weights too.
    return node.inputs.size() == 3 && node.results[0].dtype == node.shape(0).dtype &&
           out.uses(const_cast<Node&>(node).result(1)) == 0 &&
           write_attention(node, flash->scale, out, options);
  }
  if (const auto* sizes = std::any_cast<GradientSizesSettings>(&body.settings)) {
    return node.results.size() == 2 && write_gradient_sizes(node, *sizes, out);
  }
  return false;
}

}  // namespace

void register_cpu_kernels(const pjrt::Plugin& plugin) {
  plugin.register_ffi_handler(kDotTarget, dot_handler());
  plugin.register_ffi_handler(kConvolutionTarget, convolution_handler());
  plugin.register_ffi_handler(kAttentionTarget, attention_handler());
  plugin.register_ffi_handler(kTracedDotTarget, traced_dot_handler());
  plugin.register_ffi_handler(kTracedConvolutionTarget, traced_convolution_handler());
  plugin.register_ffi_handler(kTracedAttentionTarget, traced_attention_handler());
  plugin.register_ffi_handler(kBarrierTarget, barrier_handler());
  plugin.register_ffi_handler(kAdamWTarget, adamw_handler());
  plugin.register_ffi_handler(kGradientSizesTarget, gradient_sizes_handler());
}

Lowering cpu_lowering(const CpuLoweringOptions& given) {
  CpuLoweringOptions options = given;
  options.f32 = options.f32 && has_fast_product(DType::F32);
  options.bf16 = options.bf16 && has_fast_product(DType::BF16);
  return [options](const Node& node, Emitter& out) {
    if (node.op == &kDotGeneral) {
      return write_dot(node, node, dense_strides(node.results[0].dims), out, options);
    }
    if (node.op == &kConvolution) {
      return write_convolution(node, out, options);
    }
    if (node.op == &kCall) {
      return write_fused(node, out, options);
    }
    if (node.op == &kOptimizationBarrier) {
      return write_barrier(node, out);
    }
    return node.op == &kTranspose && write_transposed_dot(node, out, options);
  };
}

}  // namespace kinema::kernels
