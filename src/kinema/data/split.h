#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"

namespace kinema::data {

/// Held-out samples: a fraction of a data set, rounded, but at least one sample, with at least one
/// left to train on. Names and seed determine an order of all samples, the first of which are held
/// out. So when a set grows, only samples near the boundary change sides.
struct Split {
  enum class Part : uint8_t { ALL, TRAINED, HELD_OUT };

  Part part = Part::ALL;
  double share = 0;  // held out; 0: none
  uint64_t seed = 0;

  bool is_on() const { return part != Part::ALL && share > 0; }
  /// The number of held-out samples of `samples`.
  int64_t held_out(int64_t samples) const;
  /// The indices of the names that belong to the part, in order. Throws an Error for a single
  /// sample, which cannot be divided; `set` is the data set's name.
  std::vector<int64_t> chosen(const std::vector<std::string>& names, const std::string& set) const;
};

/// The clips of a set that belong to the part, by ClipSet::where.
std::unique_ptr<ClipSet> split_clips(std::unique_ptr<ClipSet> clips, const Split& split,
                                     const std::string& set);

}  // namespace kinema::data
