#pragma once

#include <functional>
#include <string>

#include "kinema/kernels/tpu/flash.h"
#include "kinema/kernels/tpu/mosaic.h"

/// Shared by the forward and the backward kernels.
namespace kinema::kernels::mosaic {

/// The vector unit's width; running maxima and sums are stored as columns of this many equal lanes.
inline constexpr int64_t kLanes = 128;
/// The score of a masked key.
inline constexpr double kMasked = -2e38;

/// Names, blocks and operations of one kernel's text.
class FlashBody {
 public:
  FlashBody(const FlashWork& work, Body& body, const Arguments& arguments)
      : work_(work), b_(body), arguments_(arguments), zero_(body.index(0)) {}

  Body& ops() { return b_; }
  const Value& zero() const { return zero_; }

  /// Emits `work(masked)` for this step's block of keys, which starts at `block_kv` times `block`:
  /// skipped if all its keys are masked, with a mask if some are.
  void for_keys(const Value& block, const std::function<void(bool masked)>& work);
  /// Emits `part(first)` for each part of the block that is computed at a time; `first` is its
  /// first row in the block, i32. A loop iteration contains up to `at_once` unrolled parts: the
  /// compiler overlaps the products of one with the exponentials of another.
  void for_parts(int64_t at_once, const std::function<void(const Value& first)>& part);

  /// Rows `first` ... of head `head` in a block of q, k, v or dy: [rows, width].
  Value rows(const Value& window, int64_t head, int64_t count, const Value& first);
  /// One number per query, [1, block_q].
  Value row(const Value& window, int64_t head);
  /// exp(x), or 2^x.
  Value exponential(const Value& x);
  /// The factor of scores, including the change of the exponential's base.
  double score_scale() const;
  /// Scores with masked keys set to kMasked; `axis` is that of keys, `first` the part's first row
  /// in the block.
  Value masked(const Value& scores, const Value& first, int64_t axis);
  /// Writes a matrix as head `head` of a result's block.
  void write(const Value& matrix, const Value& window, int64_t head);

 private:
  const FlashWork& work_;
  Body& b_;
  const Arguments& arguments_;
  Value zero_;
  Value block_start_;  // of keys
  Value counted_;
};

/// `f32`, `bf16`.
std::string element_of(DType dtype);
Type vmem(std::vector<int64_t> dims, DType dtype);

/// Windows of q, y and dy; of k, v and their gradients; of lse and delta. `q` and `kv` are the grid
/// axes that count blocks of queries and of keys.
Window query_window(const FlashWork& work, int64_t q, DType dtype);
Window key_window(const FlashWork& work, int64_t kv, DType dtype);
Window row_window(const FlashWork& work, int64_t q);

/// The kernel of a function with this body; the first `operands` windows are inputs. Array shapes
/// follow from the windows and the grid.
FlashKernel make_kernel(const FlashWork& work, const Function& function, size_t operands,
                        const std::function<void(Body&, const Arguments&)>& write);

}  // namespace kinema::kernels::mosaic
