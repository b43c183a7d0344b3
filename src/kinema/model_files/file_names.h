#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/safetensors.h"
#include "kinema/model_files/names.h"

namespace kinema::model_files {

/// Tensors that describe a network's training. Empty ones: velocity prediction, and a last timestep
/// of pure noise.
inline constexpr std::string_view kVelocityMark = "v_pred";
inline constexpr std::string_view kZeroSnrMark = "ztsnr";
/// EDM (arXiv:2206.00364): scalars of CosXL, the noise levels of its velocity prediction; [4] of
/// Playground v2.5, the mean and deviation of its latents.
inline constexpr std::string_view kEdmVelocityMin = "edm_vpred.sigma_min";
inline constexpr std::string_view kEdmVelocityMax = "edm_vpred.sigma_max";
inline constexpr std::string_view kEdmMean = "edm_mean";
inline constexpr std::string_view kEdmDeviation = "edm_std";
bool is_objective_mark(std::string_view name);

/// The prefix of the text encoder in files of Stable Diffusion 2, OpenCLIP's with all its layers:
/// the network was trained on the states of the last but one, with the final norm.
inline constexpr std::string_view kStableDiffusion2Encoder = "cond_stage_model.model.";

/// True for tensors that training left in the file and that no model reads: `alphas_cumprod`,
/// `loss.logvar`, averaged weights.
bool is_left_over(std::string_view name);

/// The names of one model's tensors in a file that may contain other models.
struct FileNames {
  const NameTable* table = nullptr;  // null: no known model; names stay as they are
  std::string prefix;
  Naming naming = Naming::DIFFUSERS;
  Layout layout;
  /// Only tensors with the prefix belong to the model.
  bool exclusive = false;

  bool is_of_model(std::string_view name) const;
  std::string without_prefix(const std::string& name) const;
  /// The diffusers names of a key of the file, without the prefix; empty: the key stays as it is.
  std::vector<Piece> pieces(const std::string& key) const;
  /// The file's name for a diffusers key.
  std::string in_file(const std::string& key) const;
};

/// Finds the model that is `part` of a pipeline ("vae"), or (empty) the network, else an
/// autoencoder. Returns names without a table if there is none.
FileNames find_names(std::span<const io::TensorView* const> tensors, std::string_view part);

}  // namespace kinema::model_files
