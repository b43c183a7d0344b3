#pragma once

#include <vector>

#include "kinema/weights/lora.h"

namespace kinema::model_source {

/// What LoRA files change of a pipeline's text encoders: two of CLIP, or CLIP and T5.
struct TextAdapters {
  std::vector<weights::Adapter> first;
  std::vector<weights::Adapter> second;

  bool empty() const { return first.empty() && second.empty(); }
};

}  // namespace kinema::model_source
