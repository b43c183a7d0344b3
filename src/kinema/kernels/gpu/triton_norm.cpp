#include "kinema/kernels/gpu/triton_norm.h"

#include <fmt/format.h>

#include <bit>
#include <optional>

#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/triton.h"
#include "kinema/kernels/gpu/triton_calls.h"
#include "kinema/kernels/gpu/triton_flash_body.h"

namespace kinema::kernels {
namespace triton {
namespace {

int64_t power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

/// A token's heads as a matrix, [heads, width] padded to powers of two.
class TokenBody {
 public:
  TokenBody(const NormRotateWork& work, Body& body)
      : work_(work),
        b_(body),
        dims_{power_of_two(work.heads), power_of_two(work.width)},
        head_(b_.along(b_.range(dims_[0]), 0, dims_)),
        channel_(b_.along(b_.range(dims_[1]), 1, dims_)),
        row_(b_.widened(b_.program_id(0))) {}

  const std::vector<int64_t>& dims() const { return dims_; }

  /// The address of this program's row in the call's array, with `elements` per row.
  Value row_of(const Value& array, int64_t elements) {
    return b_.advanced(array, b_.arith("muli", row_, b_.i64(elements)));
  }
  /// The address of this program's token in the tables, which all samples share.
  Value token_of(const Value& array) {
    const Value token =
        work_.rows == work_.tokens ? row_ : b_.arith("remsi", row_, b_.i64(work_.tokens));
    return b_.advanced(array, b_.arith("muli", token, b_.i64(work_.width)));
  }
  /// Loads at head width + channel, or at the channel only; `swapped`: the other one of each pair.
  Value load(const Value& first, bool of_heads, bool swapped) {
    return b_.load(pointers(first, of_heads, swapped), there());
  }
  void store(const Value& first, const Value& x) {
    b_.store(pointers(first, true, false), b_.cast(x, first.type.element), there());
  }

 private:
  Value number(int64_t value) { return b_.splat(b_.i32(value), dims_); }
  Value pointers(const Value& first, bool of_heads, bool swapped) {
    Value at = swapped ? b_.arith("xori", channel_, number(1)) : channel_;
    if (of_heads) {
      at = b_.arith("addi", b_.arith("muli", head_, number(work_.width)), at);
    }
    return b_.advanced(b_.splat(first, dims_), at);
  }
  std::optional<Value> there() {
    std::optional<Value> out;
    if (dims_[0] != work_.heads) {
      out = b_.compare(Compare::LT, head_, number(work_.heads));
    }
    if (dims_[1] != work_.width) {
      const Value channels = b_.compare(Compare::LT, channel_, number(work_.width));
      out = out ? b_.arith("andi", *out, channels) : channels;
    }
    return out;
  }

  const NormRotateWork& work_;
  Body& b_;
  std::vector<int64_t> dims_;
  Value head_, channel_;  // of each element, i32
  Value row_;             // i64
};

}  // namespace

// A pair's other element and its weight are loaded again (from L1): the compiler's layout of a
// token over threads need not keep pairs together.
KernelText norm_rotate(const NormRotateWork& work) {
  const std::string element = element_of(work.dtype);
  const std::string name =
      fmt::format("rms_norm_rotate_s{}_n{}_d{}_{}", work.rows, work.heads, work.width, element);
  const Function function{.name = name, .arrays = {element, "f32", "f32", "f32", element}};
  const double count = static_cast<double>(work.heads * work.width);
  const std::string text = module_text(function, [&](Body& b, const std::vector<Value>& arrays) {
    TokenBody token(work, b);
    const Value first = token.row_of(arrays[0], work.heads * work.width);
    const Value x = b.cast(token.load(first, true, false), "f32");
    const Value squares = b.reduce(Reduce::SUM, b.reduce(Reduce::SUM, b.arith("mulf", x, x), 1), 0);
    const Type scalar{.element = "f32"};
    const Value mean = b.arith("mulf", squares, b.full(1.0 / count, scalar));
    const Value inverse = b.math("rsqrt", b.arith("addf", mean, b.full(work.epsilon, scalar)));
    const Value each = b.splat(inverse, token.dims());
    const auto normed = [&](const Value& of, bool swapped) {
      return b.arith("mulf", b.arith("mulf", of, each), token.load(arrays[1], true, swapped));
    };
    const Value pair = b.cast(token.load(first, true, true), "f32");
    const Value kept =
        b.arith("mulf", normed(x, false), token.load(token.token_of(arrays[2]), false, false));
    const Value turned =
        b.arith("mulf", normed(pair, true), token.load(token.token_of(arrays[3]), false, false));
    token.store(token.row_of(arrays[4], work.heads * work.width), b.arith("addf", kept, turned));
  });
  return {.language = KernelText::Language::TRITON,
          .name = name,
          .text = text,
          .grid = {work.rows, 1, 1}};
}

}  // namespace triton

std::string norm_rotate_refusal(const Shape& x, const Shape& y) {
  constexpr int64_t kMost = 1 << 15;      // elements of a padded token, in registers
  constexpr int64_t kMostRows = 1 << 30;  // of the grid's first axis
  if (x.dtype != DType::BF16 && x.dtype != DType::F16 && x.dtype != DType::F32) {
    return fmt::format("x of {} was given, expected bf16, f16 or f32", to_string(x.dtype));
  }
  const auto filled = [](int64_t n) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  };
  if (x.elements() == 0 || filled(y.dims[2]) * filled(y.dims[3]) > kMost ||
      y.dims[0] * y.dims[1] > kMostRows) {
    return fmt::format("{} was given, expected tokens of at most {} channels", to_string(y), kMost);
  }
  return "";
}

std::vector<Tensor> triton_norm_rotate(std::span<const Tensor> in, const Shape& y,
                                       const RmsNormRotateSettings& settings) {
  const KernelText kernel = triton::norm_rotate({.rows = y.dims[0] * y.dims[1],
                                                 .tokens = y.dims[1],
                                                 .heads = y.dims[2],
                                                 .width = y.dims[3],
                                                 .dtype = y.dtype,
                                                 .epsilon = settings.epsilon});
  return custom_call({in.begin(), in.end()}, {y},
                     {.target = "__gpu$xla.gpu.triton",
                      .api_version = 4,
                      .config = triton_configuration(kernel, triton::kNormWarps, /*stages=*/1),
                      .kernel = kernel});
}

}  // namespace kinema::kernels
