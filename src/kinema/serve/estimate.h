#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/serve/catalogue.h"
#include "kinema/serve/request.h"
#include "kinema/serve/store.h"

namespace kinema::serve {

/// What a request takes, by what equal or similar ones took.
struct Estimate {
  std::optional<double> seconds;  // of the whole request; nothing: the model has made nothing yet
  std::optional<int64_t> bytes;   // of the device's memory
  bool is_measured = false;       // of this shape, else scaled from the most similar one
};

/// What makes steps equally long: `832x480x81`, and `, guided` where each step computes a negative
/// prompt too.
std::string shape_of(const Model& model, const MakeRequest& request);
/// Pixels of all frames of one picture or video.
double cells_of(const Model& model, const MakeRequest& request);
/// Steps of one picture or video; 1 where the model has no such key.
int64_t steps_of(const Model& model, const MakeRequest& request);

/// count * (steps * step_seconds + other_seconds), with loading and compiling unless `is_loaded`
/// and the shape was made before. Another shape than those measured takes the nearest one's figures
/// in proportion to its pixels, of memory what is beyond the weights.
Estimate estimate(Store& store, const Model& model, const MakeRequest& request, bool is_loaded);

}  // namespace kinema::serve
