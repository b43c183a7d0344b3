#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// Offset and scale of a stream of values, from exponential averages of their statistics:
/// percentiles, or mean and standard deviation. The state is F32 scalars, zero at the start.
class RunningNorm {
 public:
  enum class Kind : uint8_t { NONE, PERCENTILES, MEAN_STD };
  struct Options {
    Kind kind = Kind::NONE;
    /// Weight of the newest batch.
    double rate = 0.01;
    /// The smallest scale.
    double limit = 1e-8;
    /// PERCENTILES: the lower and the upper, of 100.
    double low = 5.0;
    double high = 95.0;
    /// Divide by the sum of all weights so far, which is below 1 at first.
    bool debias = true;
    bool operator==(const Options&) const = default;
  };
  /// `none`, `perc` or `meanstd`; throws an Error for another name.
  static Kind kind_from_string(std::string_view name);

  explicit RunningNorm(const Options& options) : options_(options) {}

  /// Names of the state's scalars, in the order of the state: `lo` and `hi`, or `mean` and `sqrs`;
  /// then `corr` with debias. None for NONE.
  std::vector<std::string> state_names() const;

  /// F32 scalars; 0 and 1 for NONE. No gradient.
  struct Stats {
    Tensor offset;  // the lower percentile, or the mean
    Tensor scale;   // between the percentiles, or the standard deviation
  };
  Stats stats(Graph& graph, std::span<const Tensor> state) const;
  /// The state after a batch of any shape.
  std::vector<Tensor> updated(std::span<const Tensor> state, Tensor x) const;

 private:
  Options options_;
};

/// The value that `percent` of 100 of the sorted elements of x lie below, linear between
/// neighbours: a scalar.
Tensor percentile(Tensor sorted, double percent);

}  // namespace kinema::nn
