#include "kinema/kernels/gpu/cudnn_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/generation.h"

namespace kinema::kernels {
namespace {

struct Product {
  const char* name;
  const char* axes;  // contracting axes of each side, then batch axes of each side
};

constexpr Product kForward[] = {{"bmm1", "3|3|0,2|0,2"}, {"bmm2", "3|1|0,1|0,2"}};
constexpr Product kBackward[] = {{"bmm1_grad_gemm1", "2|1|0,1|0,2"},
                                 {"bmm1_grad_gemm2", "3|1|0,1|0,2"},
                                 {"bmm2_grad_gemm1", "2|1|0,1|0,2"},
                                 {"bmm2_grad_gemm2", "3|3|0,2|0,2"}};

/// Axis numbers as 64-bit integers in protobuf's JSON: strings.
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

}  // namespace

CudnnSizes sizes_of(std::span<const Tensor> in) {
  return {in[0].dim(0), in[0].dim(1), in[1].dim(1), in[0].dim(2), in[0].dim(3)};
}

std::string cudnn_configuration(const CudnnSizes& of, DType dtype, double scale, bool masked,
                                Pass pass) {
  std::string out = fmt::format(
      "{{\"operation_queue_id\": \"0\", \"cudnn_fmha_backend_config\": {{\"fmha_scale\": {}, "
      "\"intermediate_tensor_shape\": {{\"element_type\": \"{}\", \"dimensions\": [\"{}\", \"{}\", "
      "\"{}\", \"{}\"], \"layout\": {{\"minor_to_major\": [\"3\", \"2\", \"1\", \"0\"]}}}}, "
      "\"is_flash_attention\": true, \"mask_type\": \"{}\"",
      scale, dtype == DType::F16 ? "F16" : "BF16", of.b, of.n, of.s, of.t,
      masked ? "PADDING" : "NO_MASK");
  const std::span<const Product> products = pass == Pass::FORWARD
                                                ? std::span<const Product>(kForward)
                                                : std::span<const Product>(kBackward);
  for (const Product& each : products) {
    out += dimension_numbers(each);
  }
  return out + "}}";
}

int64_t forward_workspace(std::string_view chip) {
  return gpu_generation(chip) == Generation::HOPPER ? 256 : 0;
}

Tensor heads_last(Tensor x, DType dtype) {
  x = transpose(x, {0, 2, 1, 3});
  return x.dtype() == dtype ? x : convert(x, dtype);
}

}  // namespace kinema::kernels
