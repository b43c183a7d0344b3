#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kinema/training/early_stopping.h"
#include "kinema/training/learned_rows.h"
#include "kinema/weights/adapter.h"

namespace kinema::training {

inline constexpr const char* kAdapter = "adapter";
inline constexpr const char* kControl = "controlnet";

/// What a checkpoint says of its run, and what its folders are called: see checkpoint.h.
struct TrainState {
  int64_t step = 0;           // completed steps
  int64_t data_position = 0;  // of the next batch
  int64_t seed = 0;
  std::map<std::string, std::string> settings;  // those that determine the result
  /// The folder of the parameters; kAdapter for an adapter, kWords for words, kControl for a
  /// ControlNet.
  std::string weights = "transformer";
  /// Set if only an adapter is trained; read_train_state leaves it empty.
  std::optional<weights::AdapterConfig> adapter = {};
  /// Set if only words are trained; read_train_state leaves it empty.
  std::vector<WordRows> words = {};
  EarlyStopping early_stopping = {};

  /// The value of a setting; empty if the checkpoint does not have it.
  std::string setting(const std::string& key) const;
};

/// The folders of the parameters within a checkpoint: `transformer`, `adapter`, `controlnet` ...;
/// for both experts `transformer` and `transformer_2`, or `adapter` and `adapter_2`.
std::vector<std::string> weights_parts(const std::filesystem::path& folder);
/// The first of these, and the folder of a part's average.
std::string weights_part(const std::filesystem::path& folder);
std::string average_part(const std::string& weights);

/// Reads `train_state.json`; throws an Error with file and key if it is invalid. Files of earlier
/// versions have few settings.
TrainState read_train_state(const std::filesystem::path& folder);

/// True if the checkpoint contains the average of a part (weights_parts).
bool has_average(const std::filesystem::path& folder, const std::string& part);

/// True if the checkpoint contains the optimizer's moments.
bool has_optimizer(const std::filesystem::path& folder);

}  // namespace kinema::training
