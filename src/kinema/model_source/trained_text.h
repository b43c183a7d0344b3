#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/encoders/text_files.h"
#include "kinema/networks/with_text.h"
#include "kinema/training/base_models.h"

namespace kinema::model_source {

/// The CLIP text encoders that run inside the trained network.
struct TrainedText {
  std::vector<networks::InnerText> texts;
  std::vector<encoders::TextFiles> files;  // of each
  std::vector<training::WordRows> words;   // of textual_inversion

  /// Their files, and the initial values of the words.
  training::BaseModels base() const;
  /// The initial text of the words.
  std::vector<std::string> starts = {};
};

/// Those of a configuration with train_text_encoder or textual_inversion; else nothing. Throws an
/// Error for a network whose text encoder cannot be trained, and for data without words.
std::optional<TrainedText> trained_text(const config::Config& config);

/// The network with them, or alone.
networks::Network with_text(const networks::Network& network,
                            const std::optional<TrainedText>& text);

/// The linear layers of a text encoder that adapters are trained on, as kohya's scripts.
const std::vector<std::string>& text_adapter_targets();

}  // namespace kinema::model_source
