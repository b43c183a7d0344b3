#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kinema/io/safetensors.h"

/// Identifies a file or folder of weights, whether it is supported or not.
namespace kinema::weights {

/// The roles of a file or folder in commands.
enum class Role : uint8_t {
  NETWORK = 1,   // the transformer or UNet that is trained and sampled
  PIPELINE = 2,  // a whole pipeline
  VAE = 4,
  ADAPTER = 8,    // a LoRA file
  PART = 16,      // a folder of a pipeline that no key refers to
  LATENTS = 32,   // starting noise
  MODULE = 64,    // tensors that are laid over a network's
  CONTROL = 128,  // a ControlNet
};

/// An entry of the table in model_kinds.cpp: a name, the roles, and conditions. A path is of the
/// kind if its class is one of `classes`, or if all conditions on its tensors hold. Lists are of
/// words; a star at the end or the start of a word matches any text, and names of a network's
/// tensors match with and without a prefix such as `model.diffusion_model.`.
struct ModelKind {
  /// A size of one tensor.
  struct Size {
    std::string_view tensors;  // the first of these that exists
    size_t axis = 0;
    int64_t value = 0;
  };
  /// Input channels of a network: `times` its output channels plus `more`.
  struct Input {
    int64_t times = 0;  // 0: any
    int64_t more = 0;
  };

  std::string_view name;     // `SDXL inpainting UNet`
  uint8_t roles = 0;         // of Role; 0: no command accepts it
  std::string_view classes;  // `_class_name` of a config.json or model_index.json
  std::string_view network;  // the family's name: a network with that family's tensors
  std::string_view any;      // one of these tensors
  std::string_view all;      // all of these tensors
  Input input = {};
  int64_t text_dim = 0;  // width of a UNet's text states; 0: any
  Size size = {};
  size_t rank_of_any = 0;      // axes of the tensor that matched `any`
  size_t most_tensors = 0;     // maximum number of tensors; 0: any
  bool known_modules = false;  // a tensor is a LoRA's for a module of a known model
  bool is_trained = true;      // NETWORK, PIPELINE: by train, too
  /// The remedy for a kind that is not accepted; empty: the supported networks.
  std::string_view remedy = {};

  /// A variant of a family's network, with other inputs or more tensors than the plain one.
  bool is_variant() const {
    return (is(Role::NETWORK) || !network.empty()) &&
           (input.times != 0 || input.more != 0 || text_dim != 0 || !any.empty() || !all.empty());
  }
  bool is(Role role) const { return (roles & static_cast<uint8_t>(role)) != 0; }
};

/// All kinds; the first that matches is used.
std::span<const ModelKind> model_kinds();

/// A kind, and the reason: a tensor, or a class.
struct FoundKind {
  const ModelKind* kind = nullptr;
  std::string because;
};

/// Identifies a safetensors, GGUF or torch file, a model folder or a pipeline folder; nothing for
/// an unknown kind. Of folders, only the configurations are read. Throws an Error for a corrupt
/// file.
std::optional<FoundKind> detect_kind(const std::filesystem::path& path);

/// The same for the tensors of a file.
std::optional<FoundKind> detect_tensor_kind(std::span<const io::TensorView> tensors);

/// The keys and commands that accept a path of that kind, as text:
/// `wan_vae_pretrained_model_name_or_path=FILE`; empty if none does.
std::string accepting_commands(const ModelKind& kind, const std::filesystem::path& path);

/// Throws an Error with the kind if the path is of one that has none of `roles`; paths of unknown
/// kinds pass. `key`: the configuration key of the path, if any.
void check_role(const std::filesystem::path& path, std::initializer_list<Role> roles,
                std::string_view key = {});

}  // namespace kinema::weights
