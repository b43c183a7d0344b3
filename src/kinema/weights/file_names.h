#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/safetensors.h"
#include "kinema/weights/names.h"

namespace kinema::weights {

/// Empty tensors by which a file says what its network learned: a velocity, and that the last
/// timestep is noise alone.
inline constexpr std::string_view kVelocityMark = "v_pred";
inline constexpr std::string_view kZeroSnrMark = "ztsnr";
bool is_objective_mark(std::string_view name);

/// Whether a tensor is one that training left in the file and no model reads: `alphas_cumprod`,
/// `loss.logvar`, averaged weights.
bool is_left_over(std::string_view name);

/// How the tensors of one model are called in a file that may hold other models beside it.
struct FileNames {
  const NameTable* table = nullptr;  // null: nothing that a table is of; names are as they are
  std::string prefix;
  Naming naming = Naming::DIFFUSERS;
  Layout layout;
  /// Nothing but what begins with the prefix is the model's.
  bool exclusive = false;

  bool is_of_model(std::string_view name) const;
  std::string without_prefix(const std::string& name) const;
  /// What a key of the file, without the prefix, is in diffusers' names; none: it stays as it is.
  std::vector<Piece> pieces(const std::string& key) const;
  /// A diffusers key as the file writes it.
  std::string in_file(const std::string& key) const;
};

/// Looks for the model that is `part` of a pipeline ("vae"), or (empty) for the network that is
/// sampled, else for an autoencoder that is alone. Without a table where there is none.
FileNames find_names(std::span<const io::TensorView* const> tensors, std::string_view part);

}  // namespace kinema::weights
