#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"

namespace kinema::data {

/// A share of a data set that is kept out of training: the nearest whole number of samples, but at
/// least one, and one is left to train on. Names and seed say which: each sample has its place in
/// one order whatever else is in the set, and the first of that order are kept out. So a set that
/// grows moves none but those near the border from one side to the other.
struct Split {
  enum class Part : uint8_t { ALL, TRAINED, KEPT_OUT };

  Part part = Part::ALL;
  double share = 0;  // kept out; 0: none is
  uint64_t seed = 0;

  bool is_on() const { return part != Part::ALL && share > 0; }
  /// How many of so many samples are kept out.
  int64_t kept_out(int64_t samples) const;
  /// The numbers of those of the names that are of the part, in order. Throws an Error for a single
  /// sample, which cannot be divided; `set` stands for the data set.
  std::vector<int64_t> chosen(const std::vector<std::string>& names, const std::string& set) const;
};

/// The clips of a set that are of the part, by ClipSet::where.
std::unique_ptr<ClipSet> split_clips(std::unique_ptr<ClipSet> clips, const Split& split,
                                     const std::string& set);

}  // namespace kinema::data
