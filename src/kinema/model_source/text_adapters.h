#pragma once

#include <array>
#include <filesystem>
#include <vector>

#include "kinema/weights/lora.h"

namespace kinema::model_source {

/// What changes a pipeline's two text encoders: two CLIPs, or CLIP and T5.
struct TextAdapters {
  std::vector<weights::Adapter> first;
  std::vector<weights::Adapter> second;
  /// Folders of encoders that a run trained, used instead of the pipeline's; empty: not trained.
  std::array<std::filesystem::path, 2> trained = {};
  /// The folder of the words that a run trained; empty: none.
  std::filesystem::path words = {};

  /// All of these files and folders.
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> out;
    for (const std::filesystem::path& path : {trained[0], trained[1], words}) {
      if (!path.empty()) {
        out.push_back(path);
      }
    }
    for (const std::vector<weights::Adapter>* each : {&first, &second}) {
      for (const weights::Adapter& adapter : *each) {
        out.emplace_back(adapter.lora->path());
      }
    }
    return out;
  }
};

}  // namespace kinema::model_source
