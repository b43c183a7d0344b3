#pragma once

#include <cstdint>
#include <optional>

namespace kinema::replay {

/// How often something is done for the steps of environments: `ratio` times a step, in the long
/// run.
class StepRatio {
 public:
  /// 0: never; negative: once at each call.
  explicit StepRatio(double ratio) : ratio_(ratio) {}

  /// How many times at this step, which grows from call to call. The first call gives 1.
  int64_t operator()(int64_t step);

  /// The step that what was done reaches to; nothing before the first call.
  std::optional<double> done_to() const {
    return is_first_ ? std::nullopt : std::optional<double>(done_to_);
  }
  void restore(std::optional<double> done_to) {
    is_first_ = !done_to.has_value();
    done_to_ = done_to.value_or(0.0);
  }

 private:
  double ratio_;
  bool is_first_ = true;
  double done_to_ = 0.0;  // the step that what was done reaches to
};

/// Keeps the samples for each inserted step near a number, where several threads insert and sample.
class SampleLimiter {
 public:
  /// Samples may be ahead by `tolerance`, insertions by as many steps; nothing is sampled before
  /// there are `least` steps.
  SampleLimiter(double samples_per_insert, double tolerance, int64_t least);

  bool may_insert() const;
  bool may_sample() const;
  void inserted();
  void sampled() { available_ -= 1.0; }
  /// Samples that insertions are ahead by.
  double available() const { return available_; }

 private:
  double samples_per_insert_;
  double tolerance_;
  int64_t least_;
  int64_t inserted_ = 0;
  double available_;
};

}  // namespace kinema::replay
