#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kinema/core/threefry.h"
#include "kinema/replay/chunk.h"
#include "kinema/replay/sum_tree.h"

namespace kinema::replay {

/// Selects the window of steps that is trained on. Windows are numbers, removed in the order of
/// insertion.
class Selector {
 public:
  virtual ~Selector() = default;
  /// A window of these steps.
  virtual void insert(int64_t window, std::span<const StepId> steps) = 0;
  virtual void erase(int64_t window) = 0;
  /// Throws an Error when there is no window.
  virtual int64_t sample() = 0;
  /// Gives steps their priorities, where those count.
  virtual void prioritize(std::span<const StepId> /*steps*/,
                          std::span<const double> /*priorities*/) {}
  /// Numbers from which `restore` makes a selector without windows draw on as this one would.
  /// Without any, windows are put in again, and draws begin anew.
  virtual std::vector<int64_t> state() const { return {}; }
  virtual void restore(std::span<const int64_t> /*state*/) {}
};

/// Every window with equal probability.
class Uniform : public Selector {
 public:
  explicit Uniform(uint64_t seed) : random_(random_key(seed, "replay uniform")) {}

  void insert(int64_t window, std::span<const StepId> steps) override;
  void erase(int64_t window) override;
  int64_t sample() override;
  bool empty() const { return windows_.empty(); }
  bool contains(int64_t window) const { return places_.contains(window); }
  /// How many numbers were drawn, then the windows in their order.
  std::vector<int64_t> state() const override;
  void restore(std::span<const int64_t> state) override;

 private:
  RandomStream random_;
  std::vector<int64_t> windows_;
  std::unordered_map<int64_t, size_t> places_;
};

struct PriorityOptions {
  /// Priorities count with this power.
  double exponent = 0.8;
  /// A window's priority is this part of its steps' largest, and the mean for the rest.
  double maxfrac = 0.5;
  /// Of steps without a given one.
  double initial = std::numeric_limits<double>::infinity();
  /// Steps of a window that is sampled get the priority 0.
  bool zero_on_sample = true;
};

/// Windows in proportion to their priorities (arXiv:1511.05952); those of infinite priority come
/// before all others, and when all are 0, every one is as probable.
class Prioritized : public Selector {
 public:
  Prioritized(const PriorityOptions& options, uint64_t seed);

  void insert(int64_t window, std::span<const StepId> steps) override;
  void erase(int64_t window) override;
  int64_t sample() override;
  void prioritize(std::span<const StepId> steps, std::span<const double> priorities) override;
  /// What a window counts.
  double priority(int64_t window) const;
  /// What happens to a window that was sampled.
  void sampled(int64_t window);

 private:
  void place(int64_t window);

  PriorityOptions options_;
  RandomStream random_;
  std::map<StepId, double> priorities_;
  std::map<StepId, std::vector<int64_t>> windows_with_;
  std::unordered_map<int64_t, std::vector<StepId>> steps_;
  Uniform all_;
  Uniform first_;  // of infinite priority
  SumTree sums_;
  std::unordered_map<int64_t, size_t> leaves_;
  std::vector<int64_t> window_at_;  // by leaf
  std::vector<size_t> free_leaves_;
};

/// Younger windows more often: one of age a, 0 being the newest, with the weight (a + 1)^-exponent.
/// With fewer windows than `count`, ages are scaled down to how many there are.
class Recency : public Selector {
 public:
  Recency(int64_t count, double exponent, uint64_t seed);

  void insert(int64_t window, std::span<const StepId> steps) override;
  void erase(int64_t window) override;
  int64_t sample() override;
  /// How many numbers were drawn, then the windows, the oldest first.
  std::vector<int64_t> state() const override;
  void restore(std::span<const int64_t> state) override;
  /// The probabilities of ages 0 .. count - 1.
  std::vector<double> probabilities() const;

 private:
  RandomStream random_;
  std::vector<double> sums_;            // of weights up to each age
  std::map<int64_t, int64_t> windows_;  // by a number that grows with each
  std::unordered_map<int64_t, int64_t> numbers_;
  int64_t next_ = 0;
};

/// One of several selectors for each sample, with given probabilities.
class Mixture : public Selector {
 public:
  /// Parts of probability 0 are skipped. Throws an Error unless they add up to 1.
  Mixture(std::vector<std::pair<double, std::unique_ptr<Selector>>> parts, uint64_t seed);

  void insert(int64_t window, std::span<const StepId> steps) override;
  void erase(int64_t window) override;
  int64_t sample() override;
  void prioritize(std::span<const StepId> steps, std::span<const double> priorities) override;
  /// How many numbers were drawn, then of each part the length of its state and that; nothing where
  /// a part has none.
  std::vector<int64_t> state() const override;
  void restore(std::span<const int64_t> state) override;

 private:
  RandomStream random_;
  std::vector<std::pair<double, std::unique_ptr<Selector>>> parts_;
};

}  // namespace kinema::replay
