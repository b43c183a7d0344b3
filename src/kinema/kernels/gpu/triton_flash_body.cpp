#include "kinema/kernels/gpu/triton_flash_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kinema/core/error.h"

namespace kinema::kernels::triton {
namespace {

/// Axes of the grid.
enum Axis : int64_t { BLOCK = 0, HEAD = 1, SAMPLE = 2 };
/// Smallest dimension of a product.
constexpr int64_t kLeast = 16;

bool is_power_of_two(int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<uint64_t>(value));
}

void check_work(const FlashWork& work) {
  const FlashTile& tile = work.tile;
  // The compiler aborts the process if the number of warps is not a power of two.
  check(is_power_of_two(tile.warps) && tile.stages > 0,
        "[kernels] {} warps and {} stages were given, expected a power of two of warps and at "
        "least one "
        "stage",
        tile.warps, tile.stages);
  for (const int64_t block : {tile.block_q, tile.block_kv}) {
    check(is_power_of_two(block) && block >= kLeast,
          "[kernels] a block of {} rows was given, expected a power of two of at least {}", block,
          kLeast);
  }
  check(work.scale > 0 && std::isfinite(work.scale),
        "[kernels] scores are scaled by {}, a number above 0 was expected", work.scale);
}

}  // namespace

int64_t FlashWork::padded_width() const {
  return std::max(kLeast, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(width))));
}

std::string element_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "f32";
    case DType::BF16:
      return "bf16";
    case DType::F16:
      return "f16";
    case DType::S32:
      return "i32";
    default:
      fail("[kernels] arrays of {} were given, F32, BF16 or F16 was expected", to_string(dtype));
  }
}

Type matrix(int64_t rows, int64_t columns) { return {.element = "f32", .dims = {rows, columns}}; }

FlashBody::FlashBody(const FlashWork& work, Body& body, const std::optional<Value>& keys)
    : work_(work), b_(body) {
  head_ = b_.widened(b_.program_id(HEAD));
  sample_ = b_.widened(b_.program_id(SAMPLE));
  queries_ = {b_.i32(work.queries), work.queries};
  keys_ = {b_.i32(work.keys), work.keys};
  if (keys) {
    const Value given = b_.arith("minsi", b_.load(*keys), keys_.value);
    keys_ = {b_.arith("maxsi", given, b_.i32(0)), {}};
  }
}

Rows FlashBody::rows_at(const Value& first, int64_t count, const std::optional<Value>& length) {
  Rows out{first, count, {}};
  if (length) {
    const Value number = b_.arith("addi", b_.range(count), b_.splat(first, {count}));
    out.there = b_.compare(Compare::LT, number, b_.splat(*length, {count}));
  }
  return out;
}

Rows FlashBody::own_rows(int64_t count, int64_t length) {
  const Value first = b_.arith("muli", b_.program_id(BLOCK), b_.i32(count));
  return rows_at(first, count,
                 length % count == 0 ? std::optional<Value>() : std::optional(b_.i32(length)));
}

std::vector<Value> FlashBody::for_blocks(
    const Length& length, int64_t count, const std::vector<Value>& initial,
    const std::function<std::vector<Value>(const Rows& rows, const std::vector<Value>& carried)>&
        step) {
  const auto loop = [&](const Value& from, const Value& to, const std::vector<Value>& carried,
                        const std::optional<Value>& limit) {
    return b_.loop(
        from, to, carried,
        [&](const Value& i, const std::vector<Value>& inside) {
          return step(rows_at(b_.arith("muli", i, b_.i32(count)), count, limit), inside);
        },
        limit ? 1 : 0);
  };
  const bool whole_only = length.known && *length.known % count == 0;
  const Value size = b_.i32(count);
  const Value none = b_.i32(0);
  const Value whole = b_.arith("divsi", length.value, size);
  if (whole_only) {
    return loop(none, whole, initial, {});
  }
  const Value all = b_.arith("divsi", b_.arith("addi", length.value, b_.i32(count - 1)), size);
  if (work_.tile.stages == 1) {
    return loop(none, all, initial, length.value);
  }
  return loop(whole, all, loop(none, whole, initial, {}), length.value);
}

Value FlashBody::head_of(const Value& array, int64_t length) {
  const Value sample = b_.arith("muli", sample_, b_.i64(length * work_.heads * work_.width));
  const Value head = b_.arith("muli", head_, b_.i64(work_.width));
  return b_.advanced(array, b_.arith("addi", sample, head));
}

Value FlashBody::line_of(const Value& array, int64_t length) {
  const Value sample = b_.arith("muli", sample_, b_.i64(work_.heads));
  return b_.advanced(array, b_.arith("muli", b_.arith("addi", sample, head_), b_.i64(length)));
}

Value FlashBody::pointers(const Value& head, const Rows& rows) {
  // The first row's offset may exceed 2^31 elements, offsets inside a block do not.
  const int64_t stride = work_.heads * work_.width;
  const std::vector<int64_t> dims{rows.count, work_.padded_width()};
  const Value first = b_.advanced(head, b_.arith("muli", b_.widened(rows.first), b_.i64(stride)));
  const Value row = b_.arith("muli", b_.range(rows.count), b_.splat(b_.i32(stride), {rows.count}));
  const Value offsets =
      b_.arith("addi", b_.along(row, 0, dims), b_.along(b_.range(dims[1]), 1, dims));
  return b_.advanced(b_.splat(first, dims), offsets);
}

std::optional<Value> FlashBody::mask(const Rows& rows) {
  const std::vector<int64_t> dims{rows.count, work_.padded_width()};
  std::optional<Value> out;
  if (rows.there) {
    out = b_.along(*rows.there, 0, dims);
  }
  if (dims[1] != work_.width) {
    const Value inside = b_.along(
        b_.compare(Compare::LT, b_.range(dims[1]), b_.splat(b_.i32(work_.width), {dims[1]})), 1,
        dims);
    out = out ? b_.arith("andi", *out, inside) : inside;
  }
  return out;
}

Value FlashBody::load(const Value& head, const Rows& rows) {
  return b_.load(pointers(head, rows), mask(rows));
}

void FlashBody::store(const Value& x, const Value& head, const Rows& rows) {
  b_.store(pointers(head, rows), b_.cast(x, head.type.element), mask(rows));
}

Value FlashBody::load_line(const Value& line, const Rows& rows) {
  const Value first = b_.splat(b_.advanced(line, rows.first), {rows.count});
  return b_.load(b_.advanced(first, b_.range(rows.count)), rows.there);
}

void FlashBody::store_line(const Value& x, const Value& line, const Rows& rows) {
  const Value first = b_.splat(b_.advanced(line, rows.first), {rows.count});
  b_.store(b_.advanced(first, b_.range(rows.count)), x, rows.there);
}

Value FlashBody::masked(const Value& scores, const Rows& keys, int64_t axis) {
  if (!keys.there) {
    return scores;
  }
  return b_.select(b_.along(*keys.there, axis, scores.type.dims), scores,
                   b_.full(-std::numeric_limits<double>::infinity(), scores.type));
}

Value FlashBody::mask_keys(const Value& x, const Rows& keys) {
  const Value there = *rows_at(keys.first, keys.count, keys_.value).there;
  return b_.select(b_.along(there, 0, x.type.dims), x, b_.full(0.0, x.type));
}

Value FlashBody::times_transposed(const Value& a, const Value& b) {
  return b_.dot(a, b_.transpose(b), b_.full(0.0, matrix(a.type.dims[0], b.type.dims[0])));
}

FlashKernel make_kernel(
    const FlashWork& work, const std::string& name, int64_t length, int64_t block,
    std::vector<Shape> operands, std::vector<Shape> results,
    const std::function<void(Body& b, FlashBody& f, const std::vector<Value>& arrays)>& write) {
  check_work(work);
  if (work.keys_given) {
    operands.push_back({DType::S32, {}});
  }
  // Plans read the shapes of a compiled call from this name (triton_cost.h).
  Function function{.name = fmt::format("{}_b{}_s{}_t{}_n{}_d{}_{}", name, work.batch, work.queries,
                                        work.keys, work.heads, work.width, element_of(work.dtype)),
                    .arrays = {}};
  for (const std::vector<Shape>* shapes : {&operands, &results}) {
    for (const Shape& shape : *shapes) {
      function.arrays.push_back(element_of(shape.dtype));
    }
  }
  const std::string text = module_text(function, [&](Body& b, std::vector<Value> arrays) {
    std::optional<Value> keys;
    if (work.keys_given) {
      const auto at = arrays.begin() + static_cast<std::ptrdiff_t>(operands.size()) - 1;
      keys = *at;
      arrays.erase(at);
    }
    FlashBody f(work, b, keys);
    write(b, f, arrays);
  });
  return {.text = {.language = KernelText::Language::TRITON,
                   .name = function.name,
                   .text = text,
                   .grid = {(length + block - 1) / block, work.heads, work.batch}},
          .tile = work.tile,
          .operands = std::move(operands),
          .results = std::move(results)};
}

}  // namespace kinema::kernels::triton
