// The calls as XLA's GPU compiler takes them; what is measured of workspaces is cuDNN 9.23's.
#include "kinema/kernels/gpu/cudnn_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/generation.h"

namespace kinema::kernels {
namespace {

/// Results are [b, n, s, d] and lie in memory as [b, s, n, d]: the transpose after the call moves
/// nothing.
const std::vector<int64_t> kHeadsInside{3, 1, 2, 0};
const std::vector<int64_t> kRows{2, 1, 0};
const std::vector<int64_t> kBytes{0};

/// In place of a log-sum-exp that no key counts in; above it, a weight is 0.
constexpr double kNoKeys = 1e38;

int64_t widest(std::string_view chip) {
  return generation_of(chip) == Generation::AMPERE ? 128 : 256;
}

struct Sizes {
  int64_t b, s, t, n, d;
};

Sizes sizes_of(std::span<const Tensor> in) {
  return {in[0].dim(0), in[0].dim(1), in[1].dim(1), in[0].dim(2), in[0].dim(3)};
}

int64_t forward_workspace(std::string_view chip) {
  return generation_of(chip) == Generation::HOPPER ? 256 : 0;
}

/// The sums of dq in f32, and a number for each row. The compiler puts its own size in its place
/// where it asks cuDNN, which it does not without a device: a plan's memory is right with this one.
int64_t backward_workspace(const Sizes& of, std::string_view chip) {
  constexpr int64_t kF32 = 4;
  const int64_t heads = of.b * of.n;
  switch (generation_of(chip)) {
    case Generation::AMPERE: {
      constexpr int64_t kTile = 16;
      const int64_t filled = (of.s + kTile - 1) / kTile * kTile;
      return heads * kF32 * (of.d * filled + of.d * of.s + of.s) + 128;
    }
    case Generation::HOPPER:
      return heads * of.s * kF32 * (of.d + 1) + 256;
    case Generation::BLACKWELL:
      break;
  }
  return heads * of.s * kF32 * (of.d + 1);
}

struct Product {
  const char* name;
  const char* axes;  // contracting of each side, batch of each side
};

constexpr Product kForward[] = {{"bmm1", "3|3|0,2|0,2"}, {"bmm2", "3|1|0,1|0,2"}};
constexpr Product kBackward[] = {{"bmm1_grad_gemm1", "2|1|0,1|0,2"},
                                 {"bmm1_grad_gemm2", "3|1|0,1|0,2"},
                                 {"bmm2_grad_gemm1", "2|1|0,1|0,2"},
                                 {"bmm2_grad_gemm2", "3|3|0,2|0,2"}};

/// Axis numbers as JSON of 64-bit integers has them: strings.
std::string quoted_numbers(std::string_view numbers) {
  std::string out = "[";
  for (const char c : numbers) {
    out += c == ',' ? std::string(", ") : fmt::format("\"{}\"", c);
  }
  return out + "]";
}

std::string dimension_numbers(const Product& product) {
  constexpr const char* kParts[] = {"lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch"};
  std::string out = fmt::format(", \"{}_dot_dimension_numbers\": {{", product.name);
  std::string_view rest = product.axes;
  for (const char* part : kParts) {
    const size_t end = std::min(rest.find('|'), rest.size());
    out += fmt::format("{}\"{}_dimensions\": {}", part == kParts[0] ? "" : ", ", part,
                       quoted_numbers(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out + "}";
}

std::string configuration(const Sizes& of, DType dtype, double scale, bool masked,
                          std::span<const Product> products) {
  std::string out = fmt::format(
      "{{\"operation_queue_id\": \"0\", \"cudnn_fmha_backend_config\": {{\"fmha_scale\": {}, "
      "\"intermediate_tensor_shape\": {{\"element_type\": \"{}\", \"dimensions\": [\"{}\", \"{}\", "
      "\"{}\", \"{}\"], \"layout\": {{\"minor_to_major\": [\"3\", \"2\", \"1\", \"0\"]}}}}, "
      "\"is_flash_attention\": true, \"mask_type\": \"{}\"",
      scale, dtype == DType::F16 ? "F16" : "BF16", of.b, of.n, of.s, of.t,
      masked ? "PADDING" : "NO_MASK");
  for (const Product& each : products) {
    out += dimension_numbers(each);
  }
  return out + "}}";
}

/// How many queries and keys of each sample count: S32 [b] each.
void add_lengths(std::vector<Tensor>& operands, const Sizes& of, Tensor keys) {
  operands.push_back(constant(keys.graph(), static_cast<double>(of.s), {DType::S32, {of.b}}));
  operands.push_back(broadcast_to(reshape(keys, {1}), {of.b}));
}

Tensor heads_last(Tensor x, DType dtype) {
  x = transpose(x, {0, 2, 1, 3});
  return x.dtype() == dtype ? x : convert(x, dtype);
}

/// `x` where some key counts, else `other`.
Tensor if_any(Tensor keys, Tensor x, double other) {
  return select(broadcast_to(compare(keys, Comparison::GT, 0.0), x.shape().dims), x,
                constant(x.graph(), other, x.shape()));
}

/// [b, t, n, d] with 0 for keys that do not count, of which cuDNN promises nothing.
Tensor of_counted(Tensor x, Tensor keys) {
  const Tensor counts = compare(iota(x.graph(), {DType::S32, {x.dim(1)}}, Axis(0)), Comparison::LT,
                                broadcast_to(keys, {x.dim(1)}));
  return select(broadcast_in_dim(counts, x.shape().dims, {1}), x, zeros_like(x));
}

}  // namespace

std::string cudnn_refusal(const Shape& q, const Shape& k, std::string_view chip) {
  constexpr int64_t kStep = 8;
  const int64_t width = q.dims[3];
  if (q.dtype != DType::BF16 && q.dtype != DType::F16) {
    return fmt::format("{} was given, expected bf16 or f16: activations_dtype=bfloat16 is nearest",
                       to_string(q.dtype));
  }
  if (width % kStep != 0 || width > widest(chip)) {
    const int64_t nearest = std::clamp((width + kStep / 2) / kStep * kStep, kStep, widest(chip));
    return fmt::format(
        "heads {} wide were given, expected a multiple of {} of at most {}: {} is nearest", width,
        kStep, widest(chip), nearest);
  }
  if (q.elements() == 0 || k.elements() == 0) {
    return fmt::format("{} queries and {} keys were given, expected 1 or more", q.dims[1],
                       k.dims[1]);
  }
  return "";
}

std::vector<Tensor> cudnn_flash_forward(std::span<const Tensor> in, DType y,
                                        const FlashAttentionSettings& settings,
                                        std::string_view chip, bool lse) {
  const Sizes of = sizes_of(in);
  const Tensor keys = in.size() > 3 ? in[3] : Tensor();
  const DType dtype = in[0].dtype();
  std::vector<Tensor> operands(in.begin(), in.begin() + 3);
  if (keys) {
    add_lengths(operands, of, maximum(keys, 1.0));  // a row without keys has no sum to divide by
  }
  std::vector<Shape> results{{dtype, {of.b, of.n, of.s, of.d}}};
  CustomCallAttrs attrs{.target = "__cudnn$fmhaSoftmax",
                        .api_version = 2,
                        .config = mlir_quoted(configuration(of, dtype, settings.scale,
                                                            static_cast<bool>(keys), kForward)),
                        .result_layouts = {kHeadsInside}};
  const Shape rows{DType::F32, {of.b, of.n, of.s}};
  if (lse) {
    results.push_back(rows);
    attrs.result_layouts.push_back(kRows);
  }
  results.push_back({DType::U8, {forward_workspace(chip)}});
  attrs.result_layouts.push_back(kBytes);
  const std::vector<Tensor> out =
      custom_call(std::move(operands), std::move(results), std::move(attrs));
  Tensor sums = lse ? out[1] : constant(in[0].graph(), 0.0, rows);
  if (keys) {
    sums = if_any(keys, sums, -kNoKeys);
  }
  return {heads_last(out[0], y), sums};
}

std::vector<Tensor> cudnn_flash_backward(std::span<const Tensor> in, DType result,
                                         const FlashAttentionBackwardSettings& settings,
                                         std::string_view chip) {
  const Sizes of = sizes_of(in);
  const Tensor keys = in.size() > 7 ? in[7] : Tensor();
  const DType dtype = in[0].dtype();
  // Without keys every weight is 0 beside such a sum, and with them every gradient.
  const Tensor lse = keys ? if_any(keys, in[3], kNoKeys) : in[3];
  std::vector<Tensor> operands{in[0], in[1], in[2], lse, in[5], in[6]};
  if (keys) {
    add_lengths(operands, of, maximum(keys, 1.0));
  }
  const Shape of_keys{dtype, {of.b, of.n, of.t, of.d}};
  const std::vector<Tensor> out =
      custom_call(std::move(operands),
                  {{dtype, {of.b, of.n, of.s, of.d}},
                   of_keys,
                   of_keys,
                   {DType::U8, {backward_workspace(of, chip)}}},
                  {.target = "__cudnn$fmhaSoftmaxBackward",
                   .api_version = 2,
                   .config = mlir_quoted(configuration(of, dtype, settings.scale,
                                                       static_cast<bool>(keys), kBackward)),
                   .result_layouts = {kHeadsInside, kHeadsInside, kHeadsInside, kBytes}});
  std::vector<Tensor> grads;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor gradient = heads_last(out[i], result);
    grads.push_back(i > 0 && keys ? of_counted(gradient, keys) : gradient);
  }
  return grads;
}

}  // namespace kinema::kernels
