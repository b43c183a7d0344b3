#include "kinema/verification/kernels.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/graph/ops.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/rope.h"
#include "kinema/verification/compare.h"

namespace kinema::verification {
namespace {

/// Small shapes for a kernel.
struct KernelCase {
  std::string name;
  DType dtype;                // of the kernel
  std::vector<Shape> inputs;  // standard normal numbers; an integer input is `counted`
  /// Returns y, and for a backward pass dq, dk, dv; all computed in `dtype`, with products of
  /// `precision`.
  std::function<std::vector<Tensor>(std::span<const Tensor> in, DType dtype, Precision precision)>
      compute;
  double y_limit;             // relative to the largest value
  double gradient_limit = 0;  // relative to the largest value
  int32_t counted = 0;

  std::vector<HostArray> arguments() const {
    std::vector<HostArray> out;
    for (const Shape& shape : inputs) {
      if (!is_float(shape.dtype)) {
        out.push_back(HostArray::from<int32_t>(shape.dtype, {}, std::span(&counted, 1)));
        continue;
      }
      HostArray values(Shape{DType::F32, shape.dims});
      RandomStream stream(random_key(out.size() + 1, "kernel check", 0));
      for (float& x : values.as<float>()) {
        x = stream.normal();
      }
      out.push_back(convert(values, shape.dtype));
    }
    return out;
  }
  /// Builds the outputs and their inputs in a graph.
  std::vector<Tensor> build(Graph& graph, DType inside, Precision precision) const {
    std::vector<Tensor> in;
    for (const Shape& shape : inputs) {
      in.push_back(graph.input(shape));
    }
    return compute(in, inside, precision);
  }
};

/// `counted`: the number of keys that are not masked, if not all; it is an input of the program.
KernelCase attention(int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t width,
                     DType dtype, int32_t counted = 0, bool backward = true) {
  nn::FlashOptions flash{.scale = 1.0 / std::sqrt(static_cast<double>(width))};
  flash.blocks = {.block_q = 128,  // small blocks, so that every case has several
                  .block_kv = 256,
                  .block_kv_compute = 128,
                  .block_q_dkv = 128,
                  .block_kv_dkv = 256,
                  .block_kv_dkv_compute = 128,
                  .block_q_dq = 128,
                  .block_kv_dq = 256,
                  .asked = true};
  const auto compute = [=](std::span<const Tensor> in, DType inside, Precision precision) {
    nn::FlashOptions options = flash;
    options.precision = precision;
    std::vector<Tensor> x;  // q, k, v, dy
    for (const Tensor each : in.first(4)) {
      x.push_back(nn::as(each, inside));
    }
    const Tensor count = in.size() > 4 ? in[4] : Tensor();
    const nn::FlashResult result = nn::flash_forward(x[0], x[1], x[2], count, inside, options);
    if (!backward) {
      return std::vector{result.y};
    }
    const nn::FlashGradients grads =
        nn::flash_backward(x[0], x[1], x[2], result.lse, nn::flash_delta(result.y, x[3]), x[3],
                           result.y, count, inside, options);
    return std::vector{result.y, grads.dq, grads.dk, grads.dv};
  };
  const Shape q{dtype, {batch, queries, heads, width}};
  const Shape k{dtype, {batch, keys, heads, width}};
  // A bf16 number is within 2^-9 of the exact one; products are accumulated in f32. y is a mean of
  // v with rounded weights, rounded once more. In gradients a difference of two such sums is
  // rounded. f32 sums of 300 products with exponentials are within 1e-5.
  const bool f32 = dtype == DType::F32;
  KernelCase out{.name = fmt::format("attention {} [{},{},{},{}] x {} keys{}", to_string(dtype),
                                     batch, queries, heads, width, keys,
                                     counted > 0 ? fmt::format(", {} of them count", counted) : ""),
                 .dtype = dtype,
                 .inputs = {q, k, k, q},
                 .compute = compute,
                 .y_limit = f32 ? 1e-5 : 0x1p-7,
                 .gradient_limit = f32 ? 5e-5 : 0x1p-6,
                 .counted = counted};
  if (counted > 0) {
    out.inputs.push_back(Shape{DType::S32, {}});
  }
  return out;
}

KernelCase rotation(int64_t batch, const std::array<int64_t, 3>& grid, int64_t heads, int64_t width,
                    DType dtype) {
  const auto compute = [=](std::span<const Tensor> in, DType inside, Precision) {
    const nn::Rope rope = nn::rope_3d(in[0].graph(), grid, width);
    return std::vector{nn::norm_and_rotate(nn::as(in[0], inside), in[1], 1e-6, heads, rope)};
  };
  const int64_t tokens = grid[0] * grid[1] * grid[2];
  const Shape x{dtype, {batch, tokens, heads * width}};
  // All is computed in f32 from the same inputs: a mean of up to 768 squares in another order, a
  // root and three products. Then y is rounded once, by up to 2^-8 of itself in bf16, 2^-11 in f16;
  // a sixteenth of that covers the rest.
  return {.name = fmt::format("norm and rotation {} [{},{},{},{}]", to_string(dtype), batch, tokens,
                              heads, width),
          .dtype = dtype,
          .inputs = {x, Shape{DType::F32, {heads * width}}},
          .compute = compute,
          .y_limit = dtype == DType::F32   ? 1e-5
                     : dtype == DType::F16 ? 0x1.1p-11
                                           : 0x1.1p-8};
}

std::vector<KernelCase> cases_of(KernelKind kind) {
  if (kind == KernelKind::NORM_ROTATION) {
    return {rotation(1, {2, 6, 5}, 2, 128, DType::BF16),
            rotation(2, {1, 6, 7}, 12, 64, DType::BF16),
            rotation(2, {2, 3, 5}, 3, 100, DType::BF16),
            rotation(1, {1, 7, 11}, 4, 128, DType::F16), rotation(2, {1, 3, 4}, 5, 12, DType::F32)};
  }
  return {attention(1, 384, 384, 2, 128, DType::BF16),
          attention(1, 384, 384, 2, 128, DType::BF16, 0, false),
          attention(2, 200, 77, 3, 64, DType::BF16),
          attention(1, 130, 512, 1, 128, DType::BF16, 300),
          attention(1, 256, 200, 2, 256, DType::BF16),
          attention(1, 260, 300, 2, 128, DType::F32),
          attention(1, 260, 300, 2, 128, DType::F32, 0, false),
          attention(1, 130, 256, 1, 64, DType::F32, 100)};
}

/// The options with or without the device's kernels.
runtime::ProgramOptions with_kernels(runtime::ProgramOptions options, bool kernels) {
  options.kernels = kernels;
  options.gpu_attention.must = false;  // cases that a kernel does not support are `unsupported`
  if (!kernels) {
    options.emit.lowering = {};
  }
  return options;
}

/// The program's text; empty if it is the same without kernels.
std::string text_with_kernels(const pjrt::Client& client, const Graph& graph,
                              std::span<const Tensor> outputs, runtime::ProgramOptions options) {
  options.dump.clear();
  const auto text = [&](bool kernels) {
    return runtime::Program::text(client, graph, outputs, with_kernels(options, kernels));
  };
  std::string out = text(true);
  return out == text(false) ? "" : out;
}

std::vector<Row> kernel_rows(const KernelCase& c, const pjrt::Client& client,
                             const runtime::ProgramOptions& options) {
  Graph graph;
  const std::vector<Tensor> outputs = c.build(graph, c.dtype, Precision::DEFAULT);
  if (text_with_kernels(client, graph, outputs, options).empty()) {
    return {unsupported(c.name, "y")};
  }
  Graph plain;
  const std::vector<Tensor> expected = c.build(plain, DType::F32, Precision::HIGHEST);
  const auto run = [&](const Graph& which, std::span<const Tensor> results, bool kernels) {
    return runtime::Program::compile(client, which, results, with_kernels(options, kernels))
        .run_on_host(c.arguments());
  };
  const std::vector<HostArray> want = run(plain, expected, false);
  const std::vector<HostArray> got = run(graph, outputs, true);
  constexpr const char* kTensors[] = {"y", "dq", "dk", "dv"};
  std::vector<Row> rows;
  for (size_t i = 0; i < got.size(); ++i) {
    rows.push_back(compare(c.name, kTensors[i], convert(got[i], DType::F32), want[i],
                           {.of_largest = i == 0 ? c.y_limit : c.gradient_limit}));
  }
  return rows;
}

}  // namespace

std::string kernel_program(KernelKind kind, const pjrt::Client& client,
                           const runtime::ProgramOptions& options) {
  Graph graph;
  std::vector<Tensor> outputs;
  for (const KernelCase& c : cases_of(kind)) {
    const std::vector<Tensor> more = c.build(graph, c.dtype, Precision::DEFAULT);
    outputs.insert(outputs.end(), more.begin(), more.end());
  }
  return text_with_kernels(client, graph, outputs, options);
}

int64_t kernel_case_count(KernelKind kind) { return std::ssize(cases_of(kind)); }

Report verify_kernels(KernelKind kind, const pjrt::Client& client,
                      const runtime::ProgramOptions& options,
                      const std::function<void(const std::vector<Row>& rows)>& on_case) {
  Report report;
  for (const KernelCase& c : cases_of(kind)) {
    std::vector<Row> rows;
    try {
      rows = kernel_rows(c, client, options);
    } catch (const Error& error) {
      rows = {failed(c.name, "y", error.what())};
    }
    if (on_case) {
      on_case(rows);
    }
    report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  }
  return report;
}

}  // namespace kinema::verification
