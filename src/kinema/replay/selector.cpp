#include "kinema/replay/selector.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"

namespace kinema::replay {
namespace {

/// Uniform in [0, 1) with 48 random bits.
double wide_uniform(RandomStream& random) {
  constexpr double kStep = 1.0 / (1 << 24);
  const double high = random.uniform();
  return high + kStep * random.uniform();
}

}  // namespace

void Uniform::insert(int64_t window, std::span<const StepId> /*steps*/) {
  places_[window] = windows_.size();
  windows_.push_back(window);
}

void Uniform::erase(int64_t window) {
  const auto found = places_.find(window);
  check(found != places_.end(), "[replay] there is no window {}", window);
  const size_t place = found->second;
  places_.erase(found);
  if (place + 1 < windows_.size()) {
    windows_[place] = windows_.back();
    places_[windows_[place]] = place;
  }
  windows_.pop_back();
}

int64_t Uniform::sample() {
  check(!windows_.empty(), "[replay] there is no window to sample");
  return windows_[random_.below(windows_.size())];
}

std::vector<int64_t> Uniform::state() const {
  std::vector<int64_t> out{static_cast<int64_t>(random_.position())};
  out.insert(out.end(), windows_.begin(), windows_.end());
  return out;
}

void Uniform::restore(std::span<const int64_t> state) {
  check(!state.empty() && windows_.empty(), "[replay] a selector with {} windows is restored",
        windows_.size());
  random_.seek(static_cast<uint64_t>(state[0]));
  for (const int64_t window : state.subspan(1)) {
    insert(window, {});
  }
}

Prioritized::Prioritized(const PriorityOptions& options, uint64_t seed)
    : options_(options), random_(random_key(seed, "replay priority")), all_(seed), first_(seed) {}

double Prioritized::priority(int64_t window) const {
  const std::vector<StepId>& steps = steps_.at(window);
  double largest = 0.0;
  double sum = 0.0;
  for (const StepId& step : steps) {
    const auto found = priorities_.find(step);
    const double given = found == priorities_.end() ? options_.initial : found->second;
    const double p = std::pow(given, options_.exponent);
    largest = std::max(largest, p);
    sum += p;
  }
  if (!std::isfinite(largest)) {
    return largest;
  }
  return options_.maxfrac * largest +
         (1.0 - options_.maxfrac) * sum / static_cast<double>(steps.size());
}

void Prioritized::place(int64_t window) {
  const double p = priority(window);
  const bool is_first = !std::isfinite(p);
  if (is_first != first_.contains(window)) {
    is_first ? first_.insert(window, {}) : first_.erase(window);
  }
  sums_.set(leaves_.at(window), is_first ? 0.0 : p);
}

void Prioritized::insert(int64_t window, std::span<const StepId> steps) {
  steps_[window].assign(steps.begin(), steps.end());
  for (const StepId& step : steps) {
    windows_with_[step].push_back(window);
  }
  all_.insert(window, steps);
  size_t leaf = window_at_.size();
  if (free_leaves_.empty()) {
    window_at_.push_back(window);
  } else {
    leaf = free_leaves_.back();
    free_leaves_.pop_back();
    window_at_[leaf] = window;
  }
  leaves_[window] = leaf;
  place(window);
}

void Prioritized::erase(int64_t window) {
  all_.erase(window);
  if (first_.contains(window)) {
    first_.erase(window);
  }
  const size_t leaf = leaves_.at(window);
  sums_.set(leaf, 0.0);
  free_leaves_.push_back(leaf);
  leaves_.erase(window);
  for (const StepId& step : steps_.at(window)) {
    std::vector<int64_t>& with = windows_with_.at(step);
    std::erase(with, window);
    if (with.empty()) {
      windows_with_.erase(step);
      priorities_.erase(step);
    }
  }
  steps_.erase(window);
}

int64_t Prioritized::sample() {
  int64_t window = 0;
  if (!first_.empty()) {
    window = first_.sample();
  } else if (sums_.sum() > 0.0) {
    window = window_at_[sums_.find(wide_uniform(random_) * sums_.sum())];
  } else {
    window = all_.sample();
  }
  sampled(window);
  return window;
}

void Prioritized::sampled(int64_t window) {
  if (options_.zero_on_sample) {
    const std::vector<StepId> steps = steps_.at(window);
    prioritize(steps, std::vector<double>(steps.size(), 0.0));
  }
}

void Prioritized::prioritize(std::span<const StepId> steps, std::span<const double> priorities) {
  check(steps.size() == priorities.size(), "[replay] {} priorities were given for {} steps",
        priorities.size(), steps.size());
  std::vector<int64_t> touched;
  for (size_t i = 0; i < steps.size(); ++i) {
    check(priorities[i] >= 0.0, "[replay] a priority is {} but must not be negative",
          priorities[i]);
    const auto found = windows_with_.find(steps[i]);
    if (found == windows_with_.end()) {
      continue;  // its windows were removed since
    }
    priorities_[steps[i]] = priorities[i];
    touched.insert(touched.end(), found->second.begin(), found->second.end());
  }
  std::ranges::sort(touched);
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (const int64_t window : touched) {
    place(window);
  }
}

Recency::Recency(int64_t count, double exponent, uint64_t seed)
    : random_(random_key(seed, "replay recency")) {
  check(count > 0, "[replay] recency needs a capacity, which is {}", count);
  double sum = 0.0;
  for (int64_t age = 0; age < count; ++age) {
    sum += std::pow(static_cast<double>(age + 1), -exponent);
    sums_.push_back(sum);
  }
}

std::vector<double> Recency::probabilities() const {
  std::vector<double> out;
  double before = 0.0;
  for (const double sum : sums_) {
    out.push_back((sum - before) / sums_.back());
    before = sum;
  }
  return out;
}

void Recency::insert(int64_t window, std::span<const StepId> /*steps*/) {
  windows_[next_] = window;
  numbers_[window] = next_++;
}

void Recency::erase(int64_t window) {
  const auto found = numbers_.find(window);
  check(found != numbers_.end(), "[replay] there is no window {}", window);
  windows_.erase(found->second);
  numbers_.erase(found);
}

int64_t Recency::sample() {
  check(!windows_.empty(), "[replay] there is no window to sample");
  const double part = wide_uniform(random_) * sums_.back();
  const auto count = static_cast<int64_t>(sums_.size());
  const auto at = std::ranges::upper_bound(sums_, part) - sums_.begin();
  int64_t age = std::min<int64_t>(at, count - 1);
  const auto there = static_cast<int64_t>(windows_.size());
  if (there < count) {
    age = age * there / count;
  }
  // Numbers have no gaps except at the old end, where windows are removed.
  const auto found = windows_.find(next_ - 1 - age);
  check(found != windows_.end(), "[replay] windows were not removed in their order");
  return found->second;
}

std::vector<int64_t> Recency::state() const {
  std::vector<int64_t> out{static_cast<int64_t>(random_.position())};
  for (const auto& [number, window] : windows_) {
    out.push_back(window);
  }
  return out;
}

void Recency::restore(std::span<const int64_t> state) {
  check(!state.empty() && windows_.empty(), "[replay] a selector with {} windows is restored",
        windows_.size());
  random_.seek(static_cast<uint64_t>(state[0]));
  for (const int64_t window : state.subspan(1)) {
    insert(window, {});
  }
}

Mixture::Mixture(std::vector<std::pair<double, std::unique_ptr<Selector>>> parts, uint64_t seed)
    : random_(random_key(seed, "replay mixture")) {
  double sum = 0.0;
  for (auto& [part, selector] : parts) {
    check(part >= 0.0, "[replay] a part of a mixture is {} but must not be negative", part);
    sum += part;
    if (part > 0.0) {
      parts_.emplace_back(part, std::move(selector));
    }
  }
  constexpr double kRounding = 1e-9;
  check(std::abs(sum - 1.0) < kRounding, "[replay] the parts of a mixture add up to {}, not 1",
        sum);
}

void Mixture::insert(int64_t window, std::span<const StepId> steps) {
  for (const auto& [part, selector] : parts_) {
    selector->insert(window, steps);
  }
}

void Mixture::erase(int64_t window) {
  for (const auto& [part, selector] : parts_) {
    selector->erase(window);
  }
}

int64_t Mixture::sample() {
  double left = wide_uniform(random_);
  for (size_t i = 0; i + 1 < parts_.size(); ++i) {
    if (left < parts_[i].first) {
      return parts_[i].second->sample();
    }
    left -= parts_[i].first;
  }
  return parts_.back().second->sample();
}

std::vector<int64_t> Mixture::state() const {
  std::vector<int64_t> out{static_cast<int64_t>(random_.position())};
  for (const auto& [part, selector] : parts_) {
    const std::vector<int64_t> own = selector->state();
    if (own.empty()) {
      return {};
    }
    out.push_back(std::ssize(own));
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

void Mixture::restore(std::span<const int64_t> state) {
  check(!state.empty(), "[replay] the state of a mixture is empty");
  random_.seek(static_cast<uint64_t>(state[0]));
  state = state.subspan(1);
  for (const auto& [part, selector] : parts_) {
    check(!state.empty() && state[0] > 0 && state[0] < std::ssize(state),
          "[replay] what was saved is of another mixture");
    const auto length = static_cast<size_t>(state[0]);
    selector->restore(state.subspan(1, length));
    state = state.subspan(1 + length);
  }
  check(state.empty(), "[replay] what was saved is of another mixture");
}

void Mixture::prioritize(std::span<const StepId> steps, std::span<const double> priorities) {
  for (const auto& [part, selector] : parts_) {
    selector->prioritize(steps, priorities);
  }
}

}  // namespace kinema::replay
