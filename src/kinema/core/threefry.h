#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kinema {

/// Threefry-2x32 with 20 rounds (Salmon et al., SC 2011): a pure function of key and counter.
///
/// The graph's random numbers (graph/random) use the same function, so host and device agree.
std::array<uint32_t, 2> threefry2x32(std::array<uint32_t, 2> key, std::array<uint32_t, 2> counter);

/// Key for one purpose of a run: folds the seed, a name and a position (step, epoch, index).
std::array<uint32_t, 2> random_key(uint64_t seed, std::string_view purpose, uint64_t position = 0);

/// A stream of random numbers from one key; the same on every machine.
class RandomStream {
 public:
  explicit RandomStream(std::array<uint32_t, 2> key) : key_(key) {}

  uint32_t bits();
  /// Uniform in [0, 1) with 24 random bits.
  float uniform();
  /// Standard normal (Box-Muller).
  float normal();
  /// Uniform in [0, n), without bias; n > 0.
  uint64_t below(uint64_t n);

  /// How many words were drawn; `seek` continues behind so many.
  uint64_t position() const { return counter_; }
  void seek(uint64_t position);

 private:
  std::array<uint32_t, 2> key_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 2> block_{};
};

}  // namespace kinema
