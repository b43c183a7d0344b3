#include "kinema/verification/kernels.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <span>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/graph/ops.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/nn/linear.h"
#include "kinema/verification/compare.h"

namespace kinema::verification {
namespace {

struct KernelCase {
  int64_t batch, queries, keys, heads, width;
  DType dtype;
  /// Keys that count, where it is not all of them; said while the program runs.
  int64_t counted = 0;
  bool backward = true;
};

constexpr KernelCase kCases[] = {
    {1, 384, 384, 2, 128, DType::BF16},
    {1, 384, 384, 2, 128, DType::BF16, 0, false},
    {2, 200, 77, 3, 64, DType::BF16},
    {1, 130, 512, 1, 128, DType::BF16, 300},
    {1, 256, 200, 2, 256, DType::BF16},
    {1, 260, 300, 2, 128, DType::F32},
    {1, 260, 300, 2, 128, DType::F32, 0, false},
    {1, 130, 256, 1, 64, DType::F32, 100},
};

std::string name_of(const KernelCase& c) {
  return fmt::format("attention {} [{},{},{},{}] x {} keys{}", to_string(c.dtype), c.batch,
                     c.queries, c.heads, c.width, c.keys,
                     c.counted > 0 ? fmt::format(", {} of them count", c.counted) : "");
}

/// What bf16 weights and results may be off by, of the largest value: a bf16 number is within 2^-9
/// of the real one, products are summed up in f32. y is a mean of v with rounded weights, rounded
/// once more. In gradients a difference of two such sums is rounded. f32 sums of 300 products with
/// exponentials between are within 1e-5.
Limit limit_of(const KernelCase& c, const std::string& tensor) {
  if (c.dtype == DType::F32) {
    return {.of_largest = tensor == "y" ? 1e-5 : 5e-5};
  }
  return {.of_largest = tensor == "y" ? 0x1p-7 : 0x1p-6};
}

HostArray normal(const KernelCase& c, int64_t length, uint64_t seed) {
  HostArray out(Shape{DType::F32, {c.batch, length, c.heads, c.width}});
  RandomStream stream(random_key(seed, "kernel check", 0));
  for (float& x : out.as<float>()) {
    x = stream.normal();
  }
  return convert(out, c.dtype);
}

std::vector<HostArray> arguments(const KernelCase& c) {
  std::vector<HostArray> out{normal(c, c.queries, 1), normal(c, c.keys, 2), normal(c, c.keys, 3),
                             normal(c, c.queries, 4)};
  if (c.counted > 0) {
    const int32_t counted[] = {static_cast<int32_t>(c.counted)};
    out.push_back(HostArray::from<int32_t>(DType::S32, {}, counted));
  }
  return out;
}

/// y, and for the backward pass dq, dk, dv; everything in `dtype` inside.
std::vector<Tensor> build(Graph& graph, const KernelCase& c, DType dtype,
                          std::span<const HostArray> given, const nn::FlashOptions& options) {
  std::vector<Tensor> in;
  for (const HostArray& each : given) {
    const Tensor x = graph.input(each.shape);
    in.push_back(is_float(x.dtype()) ? nn::as(x, dtype) : x);
  }
  const Tensor keys = in.size() > 4 ? in[4] : Tensor();
  const nn::FlashResult result = nn::flash_forward(in[0], in[1], in[2], keys, dtype, options);
  std::vector<Tensor> out{result.y};
  if (c.backward) {
    const Tensor delta = nn::flash_delta(result.y, in[3]);
    const nn::FlashGradients grads = nn::flash_backward(in[0], in[1], in[2], result.lse, delta,
                                                        in[3], result.y, keys, dtype, options);
    out.insert(out.end(), {grads.dq, grads.dk, grads.dv});
  }
  return out;
}

/// Blocks that every case has more than one of.
nn::FlashOptions options_of(const KernelCase& c) {
  nn::FlashOptions flash{.scale = 1.0 / std::sqrt(static_cast<double>(c.width))};
  flash.blocks = {.block_q = 128,
                  .block_kv = 256,
                  .block_kv_compute = 128,
                  .block_q_dkv = 128,
                  .block_kv_dkv = 256,
                  .block_kv_dkv_compute = 128,
                  .block_q_dq = 128,
                  .block_kv_dq = 256,
                  .asked = true};
  return flash;
}

std::string text_of(const Graph& graph, std::span<const Tensor> outputs, const pjrt::Client& client,
                    runtime::ProgramOptions options, bool kernels) {
  options.kernels = kernels;
  options.gpu_attention.must = false;  // cases that a kernel does not take are `unsupported`
  if (!kernels) {
    options.emit.lowering = {};
  }
  options.dump.clear();
  return runtime::Program::text(client, graph, outputs, options);
}

std::vector<Row> rows_of(const KernelCase& c, const pjrt::Client& client,
                         const runtime::ProgramOptions& program) {
  const std::string name = name_of(c);
  const std::vector<HostArray> given = arguments(c);
  nn::FlashOptions flash = options_of(c);
  Graph graph;
  const std::vector<Tensor> outputs = build(graph, c, c.dtype, given, flash);
  runtime::ProgramOptions with = program;
  with.kernels = true;
  with.gpu_attention.must = false;
  runtime::ProgramOptions without = program;
  without.kernels = false;
  without.emit.lowering = {};
  if (text_of(graph, outputs, client, program, true) ==
      text_of(graph, outputs, client, program, false)) {
    return {unsupported(name, "y")};
  }
  Graph plain;
  flash.precision = Precision::HIGHEST;
  const std::vector<Tensor> expected = build(plain, c, DType::F32, given, flash);
  const std::vector<HostArray> want =
      runtime::Program::compile(client, plain, expected, without).run_on_host(given);
  const std::vector<HostArray> got =
      runtime::Program::compile(client, graph, outputs, with).run_on_host(given);
  constexpr const char* kTensors[] = {"y", "dq", "dk", "dv"};
  std::vector<Row> rows;
  for (size_t i = 0; i < got.size(); ++i) {
    rows.push_back(
        compare(name, kTensors[i], convert(got[i], DType::F32), want[i], limit_of(c, kTensors[i])));
  }
  return rows;
}

}  // namespace

std::string kernel_program(const pjrt::Client& client, const runtime::ProgramOptions& options) {
  Graph graph;
  std::vector<Tensor> outputs;
  for (const KernelCase& c : kCases) {
    const std::vector<Tensor> more = build(graph, c, c.dtype, arguments(c), options_of(c));
    outputs.insert(outputs.end(), more.begin(), more.end());
  }
  std::string text = text_of(graph, outputs, client, options, true);
  return text == text_of(graph, outputs, client, options, false) ? "" : text;
}

int64_t kernel_case_count() { return std::size(kCases); }

Report verify_kernels(const pjrt::Client& client, const runtime::ProgramOptions& options,
                      const std::function<void(const std::vector<Row>& rows)>& on_case) {
  Report report;
  for (const KernelCase& c : kCases) {
    std::vector<Row> rows;
    try {
      rows = rows_of(c, client, options);
    } catch (const Error& error) {
      rows = {failed(name_of(c), "y", error.what())};
    }
    if (on_case) {
      on_case(rows);
    }
    report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  }
  return report;
}

}  // namespace kinema::verification
