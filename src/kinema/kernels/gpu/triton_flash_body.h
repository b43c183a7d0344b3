#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/kernels/gpu/triton.h"
#include "kinema/kernels/gpu/triton_flash.h"

/// What the forward and the backward kernels share.
namespace kinema::kernels::triton {

/// Some rows of a head's matrix: `count` from `first` (i32) on.
struct Rows {
  Value first;
  int64_t count;
  /// Which of them there are, i1 [count]; empty: all.
  std::optional<Value> there;
};

/// A length and, where it is known before the kernel runs, its number.
struct Length {
  Value value;  // i32
  std::optional<int64_t> known;
};

/// Addresses, masks and loops of one program: of a block of queries or keys (axis 0 of the grid) of
/// a head (1) of a sample (2).
class FlashBody {
 public:
  /// `keys`: the pointer to how many count, where an operand says it.
  FlashBody(const FlashWork& work, Body& body, const std::optional<Value>& keys);

  const Length& queries() const { return queries_; }
  const Length& keys() const { return keys_; }

  /// This program's block of `count` rows out of so many.
  Rows own_rows(int64_t count, int64_t length);
  /// carried = step(rows, carried) for each block of `count` rows out of so many: whole blocks,
  /// then what is left, masked. With one stage all are masked: there are tiles with one because
  /// their products are long (of f32), and written twice they would not fit into registers.
  std::vector<Value> for_blocks(
      const Length& length, int64_t count, const std::vector<Value>& initial,
      const std::function<std::vector<Value>(const Rows& rows, const std::vector<Value>& carried)>&
          step);

  /// This program's sample and head of [b, length, n, d]; of [b, n, length].
  Value head_of(const Value& array, int64_t length);
  Value line_of(const Value& array, int64_t length);

  /// Rows of a head's matrix, [count, padded width]; what is not there is 0.
  Value load(const Value& head, const Rows& rows);
  void store(const Value& x, const Value& head, const Rows& rows);
  /// One number a row, [count].
  Value load_line(const Value& line, const Rows& rows);
  void store_line(const Value& x, const Value& line, const Rows& rows);

  /// Scores of keys that are not there become minus infinity; `axis` is that of keys.
  Value masked(const Value& scores, const Rows& keys, int64_t axis);
  /// Rows of keys that do not count become 0.
  Value where_counted(const Value& x, const Rows& keys);
  /// a b^T
  Value times_transposed(const Value& a, const Value& b);

 private:
  Value pointers(const Value& head, const Rows& rows);
  std::optional<Value> mask(const Rows& rows);
  Rows rows_at(const Value& first, int64_t count, const std::optional<Value>& length);

  const FlashWork& work_;
  Body& b_;
  Length queries_, keys_;
  Value head_, sample_;  // i64
};

/// `f32`, `bf16`, `f16`.
std::string element_of(DType dtype);
Type matrix(int64_t rows, int64_t columns);  // f32

/// The kernel of a function `name`, which has a block of `block` rows out of `length` for each
/// program; the last operand is the count of keys where work.keys_given.
FlashKernel make_kernel(
    const FlashWork& work, const std::string& name, int64_t length, int64_t block,
    std::vector<Shape> operands, std::vector<Shape> results,
    const std::function<void(Body& b, FlashBody& f, const std::vector<Value>& arrays)>& write);

}  // namespace kinema::kernels::triton
