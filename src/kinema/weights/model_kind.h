#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kinema/io/safetensors.h"

/// What a file or folder of weights is, whether it is supported or not.
namespace kinema::weights {

/// What commands may take a file or folder as.
enum class Role : uint8_t {
  NETWORK = 1,   // the transformer or UNet that is trained and sampled
  PIPELINE = 2,  // a whole pipeline
  VAE = 4,
  ADAPTER = 8,   // a LoRA file
  PART = 16,     // a folder of a pipeline that no key names by itself
  LATENTS = 32,  // noise to begin with
};

/// A row of the table in model_kinds.cpp: a name, what takes it, and how it is known. It is of the
/// kind when its class is one of `classes`, or when all that is said of its tensors holds. Lists
/// are of words; a star at the end or the beginning of a word stands for any text, and names of a
/// network's tensors are looked for with and without a prefix such as `model.diffusion_model.`.
struct ModelKind {
  /// A size of one tensor.
  struct Size {
    std::string_view tensors;  // the first of these that is there
    size_t axis = 0;
    int64_t value = 0;
  };
  /// Channels that a network takes: `times` those that it makes, and `more`.
  struct Input {
    int64_t times = 0;  // 0: any
    int64_t more = 0;
  };

  std::string_view name;     // `SDXL inpainting UNet`
  uint8_t roles = 0;         // of Role; 0: no command takes it
  std::string_view classes;  // `_class_name` of a config.json or model_index.json
  std::string_view network;  // the family's name: a network with that family's tensors
  std::string_view any;      // one of these tensors
  std::string_view all;      // each of these tensors
  Input input = {};
  Size size = {};
  size_t rank_of_any = 0;      // axes of the tensor that `any` found
  size_t most_tensors = 0;     // there are no more than this; 0: any number
  bool known_modules = false;  // a tensor is a LoRA's of a module of a known model
  /// What helps in its place, for a kind that is not taken; empty: the supported networks.
  std::string_view remedy = {};

  bool is(Role role) const { return (roles & static_cast<uint8_t>(role)) != 0; }
};

/// All kinds; of those that fit, the first is meant.
std::span<const ModelKind> model_kinds();

/// A kind, and what told it: a tensor, or a class.
struct FoundKind {
  const ModelKind* kind = nullptr;
  std::string because;
};

/// What a safetensors or GGUF file, a model's folder or a pipeline's folder is; nothing where it is
/// of no known kind. Of folders, only the configurations are read. Throws an Error for a damaged
/// file.
std::optional<FoundKind> kind_of(const std::filesystem::path& path);

/// The same of the tensors of a file.
std::optional<FoundKind> kind_of_tensors(std::span<const io::TensorView> tensors);

/// Which keys and commands take a path of that kind, in words: `wan_vae_pretrained_model_name_or_
/// path=FILE`; empty where none does.
std::string taken_by(const ModelKind& kind, const std::filesystem::path& path);

/// Throws an Error that names the kind where the path is of one that cannot be used as any of
/// `roles`; paths of no known kind pass. `key`: the key that names the path, if one does.
void check_role(const std::filesystem::path& path, std::initializer_list<Role> roles,
                std::string_view key = {});

}  // namespace kinema::weights
