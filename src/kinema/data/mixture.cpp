#include "kinema/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/data/source.h"

namespace kinema::data {
namespace {

/// The most places of a cycle.
constexpr int64_t kPlaces = 1000;

/// The number of places for which each share of them is an integer, to rounding; else kPlaces.
int64_t places_of(const std::vector<double>& weights, double sum) {
  for (auto places = std::ssize(weights); places < kPlaces; ++places) {
    if (std::ranges::all_of(weights, [&](double weight) {
          const double exact = weight / sum * static_cast<double>(places);
          return std::abs(exact - std::round(exact)) < 1e-9 * static_cast<double>(places);
        })) {
      return places;
    }
  }
  return kPlaces;
}

/// The places of each set in a cycle: its share rounded down, and the rest for those with the
/// largest remainders.
std::vector<int64_t> counts_of(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) {
    check(std::isfinite(weight) && weight > 0,
          "[data] a data set has weight {:g}, expected above 0", weight);
    sum += weight;
  }
  const int64_t places = places_of(weights, sum);
  std::vector<int64_t> out;
  std::vector<double> rests;
  int64_t left = places;
  for (const double weight : weights) {
    const double exact = weight / sum * static_cast<double>(places);
    // The slack is for weights like 0.3, whose share may be just below an integer.
    out.push_back(static_cast<int64_t>(std::floor(exact + 1e-6)));
    rests.push_back(exact - static_cast<double>(out.back()));
    left -= out.back();
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return rests[i]; });
  for (size_t i = 0; i < order.size() && left > 0; ++i, --left) {
    ++out[order[i]];
  }
  for (size_t i = 0; i < out.size(); ++i) {
    check(
        out[i] > 0,
        "[data] a data set has weight {:g}, which is less than a thousandth of all weights ({:g})",
        weights[i], sum);
  }
  return out;
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights, uint64_t seed, bool shuffle)
    : counts_(counts_of(weights)), seed_(seed ^ 0x6d697874757265U), shuffle_(shuffle) {
  int64_t end = 0;
  for (const int64_t count : counts_) {
    end += count;
    ends_.push_back(end);
  }
}

Mixture::Place Mixture::at(int64_t position) const {
  const int64_t cycle_number = position / cycle();
  const int64_t place = shuffle_ ? shuffled_index(seed_, position, cycle()) : position % cycle();
  const auto set = static_cast<size_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
  return {set, cycle_number * counts_[set] + place - (ends_[set] - counts_[set])};
}

}  // namespace kinema::data
