#include "kernels/interpreter/cudnn.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/rewrite.h"

namespace kinema::interpreter {
namespace {

constexpr const char* kForward = "__cudnn$fmhaSoftmax";
constexpr const char* kForwardF8 = "__cudnn$fmhaSoftmaxF8";
constexpr const char* kBackward = "__cudnn$fmhaSoftmaxBackward";

/// The configuration without MLIR's quotes.
std::string json_of(const CustomCallAttrs& attrs) {
  std::string out;
  for (size_t i = 1; i + 1 < attrs.config.size(); ++i) {
    const bool quote = attrs.config.compare(i, 3, "\\22") == 0;
    out += quote ? '"' : attrs.config[i];
    i += quote ? 2 : 0;
  }
  return out;
}

/// The text after `"key": `, up to a comma or brace outside of brackets.
std::string value_of(const std::string& json, const std::string& key) {
  const std::string wanted = fmt::format("\"{}\": ", key);
  const size_t at = json.find(wanted);
  check(at != std::string::npos, "[cudnn] the configuration has no {}: {}", key, json);
  size_t end = at + wanted.size();
  for (int depth = 0; end < json.size(); ++end) {
    const char c = json[end];
    if (depth == 0 && (c == ',' || c == '}')) break;
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
  }
  return json.substr(at + wanted.size(), end - at - wanted.size());
}

void expect(const std::string& json, const std::string& key, const std::string& value) {
  const std::string found = value_of(json, key);
  check(found == value, "[cudnn] {} is {}, expected {}", key, found, value);
}

std::string dots(const std::string& lhs, const std::string& rhs, const std::string& lhs_batch) {
  return fmt::format(
      "{{\"lhs_contracting_dimensions\": [\"{}\"], \"rhs_contracting_dimensions\": "
      "[\"{}\"], \"lhs_batch_dimensions\": [\"0\", \"{}\"], "
      "\"rhs_batch_dimensions\": [\"0\", \"2\"]}}",
      lhs, rhs, lhs_batch);
}

struct Call {
  bool backward = false;
  bool f8 = false;  // forward with q, k, v and y in e4m3
  bool masked = false;
  double scale = 0;
  size_t before_lengths = 0;
};

Call read(const Node& node) {
  const auto& attrs = node.get<CustomCallAttrs>();
  Call call{.backward = attrs.target == kBackward, .f8 = attrs.target == kForwardF8};
  check(attrs.api_version == 2, "[cudnn] API version {}, expected 2", attrs.api_version);
  const std::string json = json_of(attrs);
  call.scale = std::strtod(value_of(json, "fmha_scale").c_str(), nullptr);
  call.masked = value_of(json, "mask_type") == "\"PADDING\"";
  call.before_lengths = call.backward ? 6 : call.f8 ? 9 : 3;
  const Shape& q = node.shape(0);
  const Dims& k = node.shape(1).dims;
  check(call.f8 ? q.dtype == DType::F8E4M3FN : q.dtype == DType::BF16 || q.dtype == DType::F16,
        "[cudnn] q is {}", to_string(q));
  check(!call.f8 || !call.masked, "[cudnn] lengths in 8 bits");
  check(q.dims[3] % (call.f8 ? 16 : 8) == 0 && q.dims[3] <= 256, "[cudnn] heads {} wide",
        q.dims[3]);
  expect(json, "mask_type", call.masked ? "\"PADDING\"" : "\"NO_MASK\"");
  expect(json, "is_flash_attention", "true");
  expect(json, "element_type", q.dtype == DType::F16 ? "\"F16\"" : "\"BF16\"");
  expect(json, "dimensions",
         fmt::format("[\"{}\", \"{}\", \"{}\", \"{}\"]", q.dims[0], q.dims[2], q.dims[1], k[1]));
  expect(json, "minor_to_major", "[\"3\", \"2\", \"1\", \"0\"]");
  if (call.backward) {
    expect(json, "bmm1_grad_gemm1_dot_dimension_numbers", dots("2", "1", "1"));
    expect(json, "bmm1_grad_gemm2_dot_dimension_numbers", dots("3", "1", "1"));
    expect(json, "bmm2_grad_gemm1_dot_dimension_numbers", dots("2", "1", "1"));
    expect(json, "bmm2_grad_gemm2_dot_dimension_numbers", dots("3", "3", "2"));
  } else {
    expect(json, "bmm1_dot_dimension_numbers", dots("3", "3", "2"));
    expect(json, "bmm2_dot_dimension_numbers", dots("3", "1", "1"));
  }
  return call;
}

const Shape kScalar{DType::F32, {1, 1, 1, 1}};

void check_shape(const Node& node, size_t i, const Shape& expected) {
  check(node.shape(static_cast<int64_t>(i)) == expected, "[cudnn] operand {} is {}, expected {}", i,
        to_string(node.shape(static_cast<int64_t>(i))), to_string(expected));
}

void check_operands(const Node& node, const Call& call) {
  const Shape& q = node.shape(0);
  const Shape& k = node.shape(1);
  const int64_t b = q.dims[0];
  check(node.inputs.size() == call.before_lengths + (call.masked ? 2 : 0), "[cudnn] {} operands",
        node.inputs.size());
  check_shape(node, 1, {q.dtype, {b, k.dims[1], q.dims[2], q.dims[3]}});
  check_shape(node, 2, k);
  if (call.backward) {
    check_shape(node, 3, {DType::F32, {b, q.dims[2], q.dims[1]}});
    check_shape(node, 4, q);
    check_shape(node, 5, q);
  }
  for (size_t i = 3; call.f8 && i < 9; ++i) {
    check_shape(node, i, kScalar);
  }
  for (size_t i = call.before_lengths; i < node.inputs.size(); ++i) {
    check_shape(node, i, {DType::S32, {b}});
  }
  check(node.get<CustomCallAttrs>().operand_layouts.empty(), "[cudnn] operands are row-major");
}

/// [b, n, length, d] stored as [b, length, n, d]; f32 rows; and workspace bytes.
void check_results(const Node& node, const Call& call) {
  const auto& layouts = node.get<CustomCallAttrs>().result_layouts;
  const size_t count = node.results.size();
  const size_t least = call.backward ? 4 : call.f8 ? 4 : 2;
  check(count == least || (!call.backward && count == least + 1), "[cudnn] {} results", count);
  check(layouts.size() == count, "[cudnn] {} layouts of {} results", layouts.size(), count);
  const auto heads_first = [&](const Shape& x) {
    return Shape{x.dtype, {x.dims[0], x.dims[2], x.dims[1], x.dims[3]}};
  };
  for (size_t i = 0; i < count; ++i) {
    const Shape& shape = node.results[i];
    const bool rows = !call.backward && i + 2 == count && count == least + 1;
    if (call.f8 && (i == 1 || i == 2)) {
      check(shape == kScalar && layouts[i] == std::vector<int64_t>{3, 2, 1, 0},
            "[cudnn] result {} is {}", i, to_string(shape));
    } else if (i + 1 == count) {
      check(shape.dtype == DType::U8 && shape.rank() == 1 && layouts[i] == std::vector<int64_t>{0},
            "[cudnn] the workspace is {}", to_string(shape));
    } else if (rows) {
      const Shape& q = node.shape(0);
      check(shape == Shape{DType::F32, {q.dims[0], q.dims[2], q.dims[1]}} &&
                layouts[i] == std::vector<int64_t>{2, 1, 0},
            "[cudnn] lse is {}", to_string(shape));
    } else {
      const Shape expected = heads_first(node.shape(i == 0 ? 0 : 1));
      check(shape == expected && layouts[i] == std::vector<int64_t>{3, 1, 2, 0},
            "[cudnn] result {} is {}, expected {} with heads inside", i, to_string(shape),
            to_string(expected));
    }
  }
}

Tensor wide(Tensor x) { return convert(x, DType::F32); }

/// "bsnd,btnd->bnst" and so on.
Tensor product(const char* spec, Tensor a, Tensor b) {
  return einsum(spec, a, b, Precision::HIGHEST);
}

/// The valid positions along `axis`, pred of `dims`; `lengths` is s32 [b].
Tensor counting(Tensor lengths, const Dims& dims, int64_t axis) {
  const Tensor position = iota(lengths.graph(), {DType::S32, dims}, Axis(axis));
  return compare(position, Comparison::LT, broadcast_in_dim(lengths, dims, {0}));
}

Tensor filled(Tensor counts, Tensor x, double other) {
  return select(counts, x, constant(x.graph(), other, x.shape()));
}

/// scale q k^T, with -inf for masked keys.
Tensor scores(std::span<const Tensor> in, const Call& call) {
  const Tensor s = product("bsnd,btnd->bnst", wide(in[0]), wide(in[1])) * call.scale;
  return call.masked
             ? filled(counting(in[call.before_lengths + 1], s.shape().dims, 3), s, -INFINITY)
             : s;
}

std::vector<Tensor> forward(std::span<const Tensor> in, const Node& node, const Call& call) {
  const Tensor s = scores(in, call);
  const Tensor largest = expand_dims(max(s, {3}), Axis(-1));
  const Tensor p = exp(s - largest);
  const Tensor total = expand_dims(sum(p, {3}), Axis(-1));
  std::vector<Tensor> out{
      convert(product("bnst,btnd->bnsd", p / total, wide(in[2])), node.results[0].dtype)};
  if (node.results.size() == 3) {
    out.push_back(squeeze(largest + log(total), Axis(-1)));
  }
  return out;
}

/// Operands 3 to 8: the factors that undo the scaling of q, k, v and the weights after a product,
/// and the scales of the weights and y before they are narrowed. A weight is exp of at most 0,
/// divided by its row's sum only after the second product, as one-pass kernels must.
std::vector<Tensor> forward_f8(std::span<const Tensor> in, const Node& node, const Call& call) {
  const auto scaled = [&](Tensor x, size_t factor) {
    return x * broadcast_to(in[factor], x.shape().dims);
  };
  // Otherwise the compiler drops a rounding that is followed by a conversion back.
  const auto held = [](Tensor x) { return optimization_barrier({x})[0]; };
  const auto narrow = [&](Tensor x) { return held(convert(x, DType::F8E4M3FN)); };
  const Tensor v = wide(held(in[2]));
  const Tensor dots = product("bsnd,btnd->bnst", wide(held(in[0])), wide(held(in[1])));
  const Tensor s = scaled(scaled(dots, 3), 4) * call.scale;
  const Tensor largest = expand_dims(max(s, {3}), Axis(-1));
  const Tensor p = exp(s - largest);
  const Tensor total = expand_dims(sum(p, {3}), Axis(-1));
  const Tensor sums = product("bnst,btnd->bnsd", wide(narrow(scaled(p, 7))), v);
  const Tensor y = scaled(scaled(sums, 5), 6) / total;
  std::vector<Tensor> out{narrow(scaled(y, 8)), reshape(max(p / total), kScalar.dims),
                          reshape(max(abs(y)), kScalar.dims)};
  if (node.results.size() == 5) {
    out.push_back(squeeze(largest + log(total), Axis(-1)));
  }
  return out;
}

/// Gradients of masked keys: anything.
Tensor of_keys(Tensor x, std::span<const Tensor> in, const Call& call) {
  return call.masked ? filled(counting(in[call.before_lengths + 1], x.shape().dims, 2), x, NAN) : x;
}

std::vector<Tensor> backward(std::span<const Tensor> in, const Node& node, const Call& call) {
  const Tensor dy = wide(in[4]);
  const Tensor p = exp(scores(in, call) - expand_dims(in[3], Axis(-1)));
  const Tensor delta = expand_dims(transpose(sum(dy * wide(in[5]), {3}), {0, 2, 1}), Axis(-1));
  const Tensor dp = product("bsnd,btnd->bnst", dy, wide(in[2]));
  const Tensor ds = p * (dp - delta) * call.scale;
  const DType dtype = node.results[0].dtype;
  return {convert(product("bnst,btnd->bnsd", ds, wide(in[1])), dtype),
          of_keys(convert(product("bnst,bsnd->bntd", ds, wide(in[0])), dtype), in, call),
          of_keys(convert(product("bnst,bsnd->bntd", p, dy), dtype), in, call)};
}

}  // namespace

Lowering with_cudnn(Lowering lowering) {
  return [lowering = std::move(lowering)](const Node& node, Emitter& out) {
    const bool ours =
        node.op == &kCustomCall && node.get<CustomCallAttrs>().target.starts_with("__cudnn$");
    if (!ours) {
      return lowering && lowering(node, out);
    }
    const std::string& target = node.get<CustomCallAttrs>().target;
    check(target == kForward || target == kForwardF8 || target == kBackward,
          "[cudnn] there is no {}", target);
    const Call call = read(node);
    check_operands(node, call);
    check_results(node, call);
    kernels::emit_replacement(node, out, [&](std::span<const Tensor> in) {
      std::vector<Tensor> results = call.backward ? backward(in, node, call)
                                    : call.f8     ? forward_f8(in, node, call)
                                                  : forward(in, node, call);
      results.push_back(constant(in[0].graph(), 0.0, node.results.back()));
      return results;
    });
    return true;
  };
}

}  // namespace kinema::interpreter
