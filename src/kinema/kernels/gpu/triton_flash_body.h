#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/kernels/gpu/triton.h"
#include "kinema/kernels/gpu/triton_flash.h"

/// Shared by the forward and the backward kernels.
namespace kinema::kernels::triton {

/// Rows of a head's matrix: `count` from `first` (i32) on.
struct Rows {
  Value first;
  int64_t count;
  /// Which of the rows exist, i1 [count]; empty: all.
  std::optional<Value> there;
};

/// A length and, if known when the kernel is built, its number.
struct Length {
  Value value;  // i32
  std::optional<int64_t> known;
};

/// Addresses, masks and loops of one program: one block of queries or keys (axis 0 of the grid) of
/// a head (1) of a sample (2).
class FlashBody {
 public:
  /// `keys`: the pointer to the number of valid keys, if that is an operand.
  FlashBody(const FlashWork& work, Body& body, const std::optional<Value>& keys);

  const Length& queries() const { return queries_; }
  const Length& keys() const { return keys_; }

  /// This program's block of `count` rows out of `length`.
  Rows own_rows(int64_t count, int64_t length);
  /// carried = step(rows, carried) for each block of `count` rows out of `length`: whole blocks,
  /// then the masked remainder. With one stage every block is masked: such tiles have long (f32)
  /// products, and a second copy of the loop body would not fit into registers.
  std::vector<Value> for_blocks(
      const Length& length, int64_t count, const std::vector<Value>& initial,
      const std::function<std::vector<Value>(const Rows& rows, const std::vector<Value>& carried)>&
          step);

  /// The address of this program's sample and head in [b, length, n, d]; in [b, n, length].
  Value head_of(const Value& array, int64_t length);
  Value line_of(const Value& array, int64_t length);

  /// Rows of a head's matrix, [count, padded width]; padding is 0.
  Value load(const Value& head, const Rows& rows);
  void store(const Value& x, const Value& head, const Rows& rows);
  /// One number per row, [count].
  Value load_line(const Value& line, const Rows& rows);
  void store_line(const Value& x, const Value& line, const Rows& rows);

  /// Scores with padding or masked keys set to minus infinity; `axis` is that of keys.
  Value masked(const Value& scores, const Rows& keys, int64_t axis);
  /// `x` with the rows of masked keys set to 0.
  Value mask_keys(const Value& x, const Rows& keys);
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

/// The kernel of a function `name`, whose programs each handle a block of `block` rows out of
/// `length`; the last operand is the number of keys if work.keys_given.
FlashKernel make_kernel(
    const FlashWork& work, const std::string& name, int64_t length, int64_t block,
    std::vector<Shape> operands, std::vector<Shape> results,
    const std::function<void(Body& b, FlashBody& f, const std::vector<Value>& arrays)>& write);

}  // namespace kinema::kernels::triton
