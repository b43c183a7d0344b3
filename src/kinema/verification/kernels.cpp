#include "kinema/verification/kernels.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
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

struct AttentionCase {
  int64_t batch, queries, keys, heads, width;
  DType dtype;
  /// Keys that count, where it is not all of them; said while the program runs.
  int64_t counted = 0;
  bool backward = true;
};

constexpr AttentionCase kAttention[] = {
    {1, 384, 384, 2, 128, DType::BF16},
    {1, 384, 384, 2, 128, DType::BF16, 0, false},
    {2, 200, 77, 3, 64, DType::BF16},
    {1, 130, 512, 1, 128, DType::BF16, 300},
    {1, 256, 200, 2, 256, DType::BF16},
    {1, 260, 300, 2, 128, DType::F32},
    {1, 260, 300, 2, 128, DType::F32, 0, false},
    {1, 130, 256, 1, 64, DType::F32, 100},
};

std::string name_of(const AttentionCase& c) {
  return fmt::format("attention {} [{},{},{},{}] x {} keys{}", to_string(c.dtype), c.batch,
                     c.queries, c.heads, c.width, c.keys,
                     c.counted > 0 ? fmt::format(", {} of them count", c.counted) : "");
}

/// What bf16 weights and results may be off by, of the largest value: a bf16 number is within 2^-9
/// of the real one, products are summed up in f32. y is a mean of v with rounded weights, rounded
/// once more. In gradients a difference of two such sums is rounded. f32 sums of 300 products with
/// exponentials between are within 1e-5.
Limit limit_of(const AttentionCase& c, const std::string& tensor) {
  if (c.dtype == DType::F32) {
    return {.of_largest = tensor == "y" ? 1e-5 : 5e-5};
  }
  return {.of_largest = tensor == "y" ? 0x1p-7 : 0x1p-6};
}

HostArray normal(const Dims& dims, DType dtype, uint64_t seed) {
  HostArray out(Shape{DType::F32, dims});
  RandomStream stream(random_key(seed, "kernel check", 0));
  for (float& x : out.as<float>()) {
    x = stream.normal();
  }
  return convert(out, dtype);
}

HostArray normal(const AttentionCase& c, int64_t length, uint64_t seed) {
  return normal({c.batch, length, c.heads, c.width}, c.dtype, seed);
}

std::vector<HostArray> arguments(const AttentionCase& c) {
  std::vector<HostArray> out{normal(c, c.queries, 1), normal(c, c.keys, 2), normal(c, c.keys, 3),
                             normal(c, c.queries, 4)};
  if (c.counted > 0) {
    const int32_t counted[] = {static_cast<int32_t>(c.counted)};
    out.push_back(HostArray::from<int32_t>(DType::S32, {}, counted));
  }
  return out;
}

/// Blocks that every case has more than one of.
nn::FlashOptions options_of(const AttentionCase& c) {
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

/// y, and for the backward pass dq, dk, dv; everything in `dtype` inside, with products of
/// `precision`.
std::vector<Tensor> build(Graph& graph, const AttentionCase& c, DType dtype, Precision precision) {
  std::vector<Tensor> in;
  for (const HostArray& each : arguments(c)) {
    const Tensor x = graph.input(each.shape);
    in.push_back(is_float(x.dtype()) ? nn::as(x, dtype) : x);
  }
  nn::FlashOptions options = options_of(c);
  options.precision = precision;
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

struct RotationCase {
  int64_t batch;
  std::array<int64_t, 3> grid;
  int64_t heads, width;
  DType dtype;

  int64_t tokens() const { return grid[0] * grid[1] * grid[2]; }
};

constexpr RotationCase kRotation[] = {
    {1, {2, 6, 5}, 2, 128, DType::BF16}, {2, {1, 6, 7}, 12, 64, DType::BF16},
    {2, {2, 3, 5}, 3, 100, DType::BF16}, {1, {1, 7, 11}, 4, 128, DType::F16},
    {2, {1, 3, 4}, 5, 12, DType::F32},
};

std::string name_of(const RotationCase& c) {
  return fmt::format("norm and rotation {} [{},{},{},{}]", to_string(c.dtype), c.batch, c.tokens(),
                     c.heads, c.width);
}

/// All is computed in f32, of the same inputs: a mean of up to 768 squares in another order, a root
/// and three products. Then y is rounded once, by up to 2^-8 of itself in bf16, 2^-11 in f16; a
/// sixteenth of that is room for the rest.
Limit limit_of(const RotationCase& c, const std::string&) {
  return {.of_largest = c.dtype == DType::F32   ? 1e-5
                        : c.dtype == DType::F16 ? 0x1.1p-11
                                                : 0x1.1p-8};
}

std::vector<HostArray> arguments(const RotationCase& c) {
  const int64_t channels = c.heads * c.width;
  return {normal({c.batch, c.tokens(), channels}, c.dtype, 1), normal({channels}, DType::F32, 2)};
}

/// y, in `dtype`.
std::vector<Tensor> build(Graph& graph, const RotationCase& c, DType dtype, Precision) {
  const std::vector<HostArray> given = arguments(c);
  const Tensor x = nn::as(graph.input(given[0].shape), dtype);
  const Tensor weight = graph.input(given[1].shape);
  return {nn::normed_rotation(x, weight, 1e-6, c.heads, nn::rope_3d(graph, c.grid, c.width))};
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

template <typename Case>
std::vector<Row> rows_of(const Case& c, const pjrt::Client& client,
                         const runtime::ProgramOptions& program) {
  const std::string name = name_of(c);
  Graph graph;
  const std::vector<Tensor> outputs = build(graph, c, c.dtype, Precision::DEFAULT);
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
  const std::vector<HostArray> given = arguments(c);
  Graph plain;
  const std::vector<Tensor> expected = build(plain, c, DType::F32, Precision::HIGHEST);
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

template <typename Case>
std::string program_of(std::span<const Case> cases, const pjrt::Client& client,
                       const runtime::ProgramOptions& options) {
  Graph graph;
  std::vector<Tensor> outputs;
  for (const Case& c : cases) {
    const std::vector<Tensor> more = build(graph, c, c.dtype, Precision::DEFAULT);
    outputs.insert(outputs.end(), more.begin(), more.end());
  }
  std::string text = text_of(graph, outputs, client, options, true);
  return text == text_of(graph, outputs, client, options, false) ? "" : text;
}

template <typename Case>
Report report_of(std::span<const Case> cases, const pjrt::Client& client,
                 const runtime::ProgramOptions& options,
                 const std::function<void(const std::vector<Row>& rows)>& on_case) {
  Report report;
  for (const Case& c : cases) {
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

/// `what` with the cases of a kind.
template <typename What>
auto with_cases(KernelKind kind, const What& what) {
  return kind == KernelKind::ATTENTION ? what(std::span<const AttentionCase>(kAttention))
                                       : what(std::span<const RotationCase>(kRotation));
}

}  // namespace

std::string kernel_program(KernelKind kind, const pjrt::Client& client,
                           const runtime::ProgramOptions& options) {
  return with_cases(kind, [&](auto cases) { return program_of(cases, client, options); });
}

int64_t kernel_case_count(KernelKind kind) {
  return with_cases(kind, [](auto cases) { return static_cast<int64_t>(cases.size()); });
}

Report verify_kernels(KernelKind kind, const pjrt::Client& client,
                      const runtime::ProgramOptions& options,
                      const std::function<void(const std::vector<Row>& rows)>& on_case) {
  return with_cases(kind, [&](auto cases) { return report_of(cases, client, options, on_case); });
}

}  // namespace kinema::verification
