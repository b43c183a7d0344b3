#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// The contents of a single file: a network, or a whole pipeline.
namespace kinema::weights {

/// The models in a single file other than the network: kVae, kTextEncoder, kTextEncoder2. Empty for
/// a folder. Throws an Error for a corrupt file.
std::vector<std::string_view> parts_in(const std::filesystem::path& path);

/// A description of a single file's models, with the naming of a network: `original names of Flux`,
/// `vae`; empty if no known model is in it. Throws the Errors of Checkpoint::open.
std::string models_in(const std::filesystem::path& path);

/// A file's marks of how its network was trained.
struct ObjectiveMarks {
  bool v_prediction = false;         // it predicts the velocity
  bool zero_terminal_snr = false;    // its last timestep is pure noise (arXiv:2305.08891)
  std::vector<std::string> sources;  // the tensors `v_pred`, `ztsnr`, or the metadata

  bool any() const { return v_prediction || zero_terminal_snr; }
};

/// `v-prediction, zero terminal SNR (by `v_pred`, `ztsnr`)`.
std::string to_string(const ObjectiveMarks& marks);

/// From the tensors `v_pred` and `ztsnr`, and `modelspec.prediction_type` in the metadata of a
/// file. No marks for a folder. Throws an Error for a corrupt file.
ObjectiveMarks objective_marks(const std::filesystem::path& path);

/// Names of tensors in a single file that no model reads (is_left_over), for a log line. Throws an
/// Error for a corrupt file.
std::vector<std::string> unused_tensors(const std::filesystem::path& path);

}  // namespace kinema::weights
