#include "kinema/kernels/cpu/lowering.h"

#include <fmt/ranges.h>

#include <array>

#include "kinema/graph/body.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/kernels/cpu/convolution.h"
#include "kinema/kernels/cpu/custom_call.h"
#include "kinema/kernels/cpu/fused_lowering.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/cpu/strided_dot.h"
#include "kinema/kernels/rounded_product.h"

namespace kinema::kernels {
namespace {

/// A tensor seen through its transposes: the dense array and a stride per logical axis.
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

/// The operands of a dot, then an index for each operand that is a slice of a loop's stack: the
/// kernel reads the slice in place. A copy of each layer's weights would cost as much time as the
/// product, and the compiler makes it in f32 whatever its dtype.
struct DotOperands : Operands {
  std::vector<int64_t> stacked;  // 1 for a slice
};

DotOperands dot_operands(Tensor a, Tensor b, const Emitter& out) {
  DotOperands operands;
  for (const Tensor x : {a, b}) {
    const StackedSlice* slice = out.slice_of(x);
    operands.add(slice != nullptr ? slice->stack : out.name(x),
                 slice != nullptr ? slice->shape : x.shape());
    operands.stacked.push_back(slice != nullptr ? 1 : 0);
  }
  for (const Tensor x : {a, b}) {
    if (const StackedSlice* slice = out.slice_of(x)) {
      operands.add(slice->index, {DType::S32, {}});
    }
  }
  return operands;
}

bool covered(DType in, DType out, const CpuLoweringOptions& options) {
  return (in == DType::F32 && options.f32 && out == DType::F32) ||
         (in == DType::BF16 && options.bf16 && (out == DType::F32 || out == DType::BF16)) ||
         (in == DType::S8 && options.s8 && out == DType::S32);
}

/// Writes `dot` with its result stored as `written` (the dot itself, its transpose, or its rounding
/// with `bias` added before it); `c_strides` are those of the dot's axes in that array.
bool write_dot(const Node& dot, const Node& written, const Dims& c_strides, Emitter& out,
               const CpuLoweringOptions& options, Tensor bias = {}) {
  if (!covered(dot.shape(0).dtype, written.results[0].dtype, options)) {
    return false;
  }
  const View a = look_through(dot.input(0));
  const View b = look_through(dot.input(1));
  const auto plan = strided_dot(dot.shape(0).dims, a.strides, dot.shape(1).dims, b.strides,
                                c_strides, dot.get<DotAttrs>().dims);
  if (!plan || plan->flops() < options.min_flops) {
    return false;
  }
  DotOperands in = dot_operands(a.stored, b.stored, out);
  if (bias) {
    in.add(out.name(bias), bias.shape());
  }
  write_call(written, options.trace ? kTracedDotTarget : kDotTarget,
             fmt::format("plan = array<i64: {}>, stacked = array<i64: {}>, bias = {} : i64{}",
                         fmt::join(to_words(*plan), ", "), fmt::join(in.stacked, ", "),
                         bias ? 1 : 0, options.trace ? traced_label(dot) : ""),
             in, out, out.location(dot));
  return true;
}

/// A transpose that is the only reader of a dot: the product is stored transposed.
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

/// A product rounded to BF16, optionally after adding its bias. The kernel does it all, so that no
/// F32 product is stored, not even for the backward pass, where the compiler would keep it instead
/// of the rounded one (xla_allow_excess_precision).
bool write_rounded_dot(const Node& convert, Emitter& out, const CpuLoweringOptions& options) {
  const std::optional<RoundedProduct> found = rounded_product(convert, out);
  return found && write_dot(*found->dot, convert, dense_strides(convert.results[0].dims), out,
                            options, found->bias);
}

/// The stored kernels of which `w` is some frames, or w itself. They are read in place: copies for
/// the first chunk of a video would make a VAE need a third more memory.
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
                         options.trace ? traced_label(node) : ""),
             operands_of(std::array{node.input(0), kernels}, out), out, out.location(node));
  return true;
}

/// The compiler drops optimization barriers before it schedules, and would then move recomputation
/// next to the forward pass. It must respect the order of an in-place call that does nothing.
bool write_barrier(const Node& node, Emitter& out) {
  const size_t count = node.inputs.size();
  write_call(node, kBarrierTarget, "", operands_of(node, out), out, out.location(node),
             {.count = count, .in_place = count});
  return true;
}

/// Elements; smaller arrays are better fused.
constexpr int64_t kLarge = 1 << 16;

/// A sum that is rounded to BF16 and read more than once. The compiler would compute it in F32 and
/// pass that to readers that widen it, or keep it for them (xla_allow_excess_precision): twice the
/// memory for each residual of a training step. Behind a barrier, readers get the rounded sum.
bool write_rounded_sum(const Node& node, Emitter& out) {
  const Tensor sum = const_cast<Node&>(node).result();
  if (sum.dtype() != DType::BF16 || sum.shape().elements() < kLarge || out.uses(sum) < 2 ||
      (node.op == &kConvert && node.input(0).node().op == &kInput)) {
    return false;
  }
  out.plain(node);
  Operands rounded;
  rounded.add(out.name(sum), sum.shape());
  write_call(node, kBarrierTarget, "", rounded, out, out.location(node), {.in_place = 1});
  return true;
}

/// An F32 sum over BF16 rows, the gradient of a bias: the compiler's multi-stage reduction begins
/// by widening all of x to F32.
bool write_column_sums(const Node& sum, Emitter& out) {
  const Shape& y = sum.results[0];
  const Node& wide = sum.input(0).node();
  const std::vector<int64_t>& axes = sum.get<ReduceAttrs>().axes;
  if (wide.op != &kConvert || wide.shape(0).dtype != DType::BF16 || y.dtype != DType::F32 ||
      y.rank() != 1 || axes.back() != wide.shape(0).rank() - 2 || y.elements() == 0 ||
      wide.shape(0).elements() < kLarge) {
    return false;
  }
  write_call(sum, kColumnSumsTarget, "", operands_of(wide, out), out, out.location(sum));
  return true;
}

/// Concatenates BF16 as bits: the compiler would widen them to F32 first and round the result.
bool write_joined_bits(const Node& node, Emitter& out) {
  const Shape& whole = node.results[0];
  if (whole.dtype != DType::BF16) {
    return false;
  }
  const auto bits = [](const Shape& x) { return Shape{DType::U16, x.dims}; };
  Operands in;
  for (const Tensor x : node.inputs) {
    in.add(out.bitcast(out.name(x), x.shape(), bits(x.shape())), bits(x.shape()));
  }
  const std::string joined = out.fresh();
  out.line("{} = \"stablehlo.concatenate\"({}) {{dimension = {} : i64}} : ({}) -> ({}){}", joined,
           fmt::join(in.names, ", "), node.get<ConcatenateAttrs>().axis, fmt::join(in.types, ", "),
           mlir_type(bits(whole)), out.location(node));
  out.bind(const_cast<Node&>(node).result(), out.bitcast(joined, bits(whole), whole));
  return true;
}

}  // namespace

Lowering cpu_lowering(const CpuLoweringOptions& given) {
  CpuLoweringOptions options = given;
  options.f32 = options.f32 && has_fast_product(DType::F32);
  options.bf16 = options.bf16 && has_fast_product(DType::BF16);
  options.s8 = options.s8 && has_fast_product(DType::S8);
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
    if (node.op == &kSum) {
      return write_column_sums(node, out);
    }
    if (node.op == &kConcatenate) {
      return write_joined_bits(node, out);
    }
    if (node.op == &kAdd) {
      return write_rounded_sum(node, out);
    }
    if (node.op == &kOptimizationBarrier) {
      return write_barrier(node, out);
    }
    if (node.op == &kConvert) {
      return write_rounded_dot(node, out, options) || write_rounded_sum(node, out);
    }
    return node.op == &kTranspose && write_transposed_dot(node, out, options);
  };
}

}  // namespace kinema::kernels
