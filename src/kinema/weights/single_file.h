#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// What lies in one file: a network, or a whole pipeline.
namespace kinema::weights {

/// The models of a pipeline in a single file beside the network: kVae, kTextEncoder, kTextEncoder2.
/// None for a folder. Throws an Error for a damaged file.
std::vector<std::string_view> parts_in(const std::filesystem::path& path);

/// What a single file holds, with the naming of a network: `original names of Flux`, `vae`; empty
/// for a file of none that is known. Throws what Checkpoint::open throws.
std::string models_in(const std::filesystem::path& path);

/// What a file says itself of how its network was trained, beside its weights.
struct ObjectiveMarks {
  bool v_prediction = false;         // it learned the velocity
  bool zero_terminal_snr = false;    // its last timestep is noise alone (arXiv:2305.08891)
  std::vector<std::string> said_by;  // the tensors `v_pred`, `ztsnr`, or the metadata

  bool any() const { return v_prediction || zero_terminal_snr; }
};

/// `v-prediction, zero terminal SNR (by `v_pred`, `ztsnr`)`.
std::string to_string(const ObjectiveMarks& marks);

/// By the tensors `v_pred` and `ztsnr`, and by `modelspec.prediction_type` in the metadata of a
/// safetensors file. No marks for a folder. Throws an Error for a damaged file.
ObjectiveMarks objective_marks(const std::filesystem::path& path);

/// Names of tensors in a single file that no model reads (is_left_over), for a line about them.
/// Throws an Error for a damaged file.
std::vector<std::string> left_overs(const std::filesystem::path& path);

}  // namespace kinema::weights
