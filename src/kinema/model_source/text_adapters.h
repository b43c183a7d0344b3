#pragma once

#include <vector>

#include "kinema/weights/lora.h"

namespace kinema::model_source {

/// The adapters of a pipeline's two text encoders: two CLIPs, or CLIP and T5.
struct TextAdapters {
  std::vector<weights::Adapter> first;
  std::vector<weights::Adapter> second;

  bool empty() const { return first.empty() && second.empty(); }
};

}  // namespace kinema::model_source
