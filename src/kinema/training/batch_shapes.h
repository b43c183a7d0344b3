#pragma once

#include <cstdint>

#include "kinema/data/source.h"
#include "kinema/networks/network.h"
#include "kinema/training/step.h"

namespace kinema::training {

/// Shapes of a batch by its first sample. Throws an Error when that does not fit the model: other
/// sizes, something that the model takes and the sample has not, or the other way round.
BatchShapes batch_shapes(const data::Sample& sample, const networks::Sizes& model, int64_t batch);

}  // namespace kinema::training
