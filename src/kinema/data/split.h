#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"

namespace kinema::data {

/// A share of a data set that is kept out of training. A sample's own name and the seed say on
/// which side it is, whatever else is in the set: a set that grows moves none from one to the
/// other.
struct Split {
  enum class Part : uint8_t { ALL, TRAINED, KEPT_OUT };

  Part part = Part::ALL;
  double share = 0;  // kept out, on the average; 0: none is
  uint64_t seed = 0;

  bool is_on() const { return part != Part::ALL && share > 0; }
  /// Whether the sample of this name is of the part.
  bool takes(const std::string& name) const;
  /// The numbers of those of the names that are of the part, in order. Throws an Error where
  /// either part has none; `set` stands for the data set.
  std::vector<int64_t> chosen(const std::vector<std::string>& names, const std::string& set) const;
};

/// The clips of a set that are of the part, by ClipSet::where.
std::unique_ptr<ClipSet> split_clips(std::unique_ptr<ClipSet> clips, const Split& split,
                                     const std::string& set);

}  // namespace kinema::data
