#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The contents of a single file: a network, or a whole pipeline.
namespace kinema::model_files {

/// The models in a single file other than the network: kVae, kTextEncoder, kTextEncoder2. Empty for
/// a folder. Throws an Error for a corrupt file.
std::vector<std::string_view> parts_in(const std::filesystem::path& path);

/// A description of a single file's models, with the naming of a network: `original names of Flux`,
/// `vae`; empty if no known model is in it. Throws the Errors of Checkpoint::open.
std::string models_in(const std::filesystem::path& path);

/// Scaling of a network's input and output as in EDM (arXiv:2206.00364, table 1).
struct EdmMarks {
  double sigma_min = 0.002;
  double sigma_max = 80.0;
  double sigma_data = 0.5;
  bool operator==(const EdmMarks&) const = default;
};

/// A file's marks of how its network was trained.
struct ObjectiveMarks {
  bool v_prediction = false;       // it predicts the velocity
  bool zero_terminal_snr = false;  // its last timestep is pure noise (arXiv:2305.08891)
  std::optional<EdmMarks> edm;
  std::vector<std::string> sources;  // the tensors `v_pred`, `ztsnr`, ..., or the metadata

  bool any() const { return v_prediction || zero_terminal_snr || edm; }
};

/// `v-prediction, zero terminal SNR (by `v_pred`, `ztsnr`)`.
std::string to_string(const ObjectiveMarks& marks);

/// From the tensors `v_pred`, `ztsnr`, `edm_vpred.sigma_max` (CosXL) and `edm_mean` (Playground
/// v2.5), and `modelspec.prediction_type` in the metadata of a file. No
/// marks for a folder. Throws an Error for a corrupt file.
ObjectiveMarks objective_marks(const std::filesystem::path& path);

/// Mean and standard deviation of each channel of a single file's latents (Playground v2.5);
/// nothing without them, and for a folder. Throws an Error for a corrupt file, or for unequal
/// numbers.
struct LatentStatistics {
  std::vector<double> mean, deviation;
};
std::optional<LatentStatistics> latent_statistics(const std::filesystem::path& path);

/// Names of tensors in a single file that no model reads (is_left_over), for a log line. Throws an
/// Error for a corrupt file.
std::vector<std::string> unused_tensors(const std::filesystem::path& path);

}  // namespace kinema::model_files
