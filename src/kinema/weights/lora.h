#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/adapters/lora_method.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/family.h"
#include "kinema/model_files/names.h"
#include "kinema/nn/params.h"
#include "kinema/weights/lora_member.h"

namespace kinema::weights {

struct LoraKey;

/// The file of diffusers' save_lora_weights in a folder, and PEFT's two files.
inline constexpr const char* kLoraFile = "pytorch_lora_weights.safetensors";
inline constexpr const char* kPeftFile = "adapter_model.safetensors";
inline constexpr const char* kPeftConfig = "adapter_config.json";
/// True if PEFT, diffusers or a run wrote a LoRA file into the folder.
bool is_lora_folder(const std::filesystem::path& path);
/// Metadata of files that kinema trained for one of two experts. In diffusers' names the keys of
/// both start with the word transformer, and the caller of load_lora_weights chooses the expert.
inline constexpr const char* kExpertKey = "kinema.expert";
inline constexpr const char* kHighNoise = "high_noise";
inline constexpr const char* kLowNoise = "low_noise";

/// A LoRA file: low-rank and full differences of the parameters of a network and of its pipeline's
/// text encoders.
///
/// The weight of a module becomes
///
///     W + s (alpha / rank up down + diff),      alpha = rank if the file has none
///
/// and its bias b + s (alpha / rank up_bias + diff_b), with s the adapter's scale. Products for
/// convolutions (`patch_embedding`) are those of their flattened kernels. A pair of a module that
/// the original release joins from several becomes one pair per module: its rows of up, and the
/// same down. Other methods change the weight by their own formulas (LoraMethod).
class Lora {
 public:
  /// The file's contents for one module, under its diffusers name.
  struct Target {
    const io::TensorView* down = nullptr;
    const io::TensorView* up = nullptr;
    const io::TensorView* up_bias = nullptr;
    const io::TensorView* diff = nullptr;
    const io::TensorView* diff_bias = nullptr;
    const io::TensorView* alpha = nullptr;
    /// alpha / rank; 1 without a product.
    double factor = 1;
    /// Another method than these: null, or the formula for `parts`, with the rows of the weight
    /// that this module is. The pair above is then empty.
    const adapters::LoraMethod* method = nullptr;
    adapters::LoraParts parts{};
    model_files::Cut cut = model_files::Cut::WHOLE;
    int64_t first_row = 0;
    int64_t rows = 0;  // 0: the file does not tell

    bool changes_weight() const { return down != nullptr || diff != nullptr || method != nullptr; }

    int64_t rank() const { return down == nullptr ? 0 : down->shape.dims[0]; }
  };
  using Targets = std::map<std::string, Target, std::less<>>;

  /// Reads a safetensors or torch file, or the one in a PEFT folder (adapter_model.safetensors and
  /// adapter_config.json) or a diffusers folder. Alpha is from the file's keys, else from its
  /// metadata in diffusers' format, else from adapter_config.json.
  ///
  /// The file's family is the one with modules for most of its keys. `layout`: sizes on which the
  /// numbers in a model's names depend; null: those of the released model.
  ///
  /// Throws an Error for a corrupt file, a file without LoRA keys, half a pair, tensors of a module
  /// that do not fit together, an alpha that is not finite, and two keys with the same meaning.
  static Lora open(const std::filesystem::path& path, const model_files::Layout* layout = nullptr);

  const std::string& path() const { return path_; }
  /// The family of its network; null if it changes text encoders only.
  const model_files::Family* family() const { return family_; }
  /// By module. `expert` is 1 for the low-noise transformer of a file with both (`transformer.` and
  /// `transformer_2.` keys). Other files have one set, for any expert.
  const Targets& targets(int64_t expert = 0) const {
    return targets_[two_parts_ && expert == 1 ? 1 : 0];
  }
  /// The same for a text encoder.
  const Targets& targets(LoraMember text) const { return targets_[static_cast<size_t>(text)]; }
  /// The numbers in its names depend on sizes of the model, which the file does not contain.
  bool counts_by_layout() const { return counts_by_layout_; }
  /// The file contains a set for each of two experts.
  bool has_two_parts() const { return two_parts_; }
  /// The expert of the file, 0 or 1, by its metadata or because all its keys start with
  /// transformer_2; nothing if it is for any expert.
  std::optional<int64_t> only_expert() const { return only_expert_; }
  /// Keys that belong to no format, or to no module of the family.
  const std::vector<std::string>& unknown() const { return unknown_; }
  /// The tensor with this key, or null.
  const io::TensorView* tensor(std::string_view key) const;
  /// `diffusers names, rank 16, 240 modules of Wan`.
  std::string summary() const;
  /// Reads the complete file. Throws an Error with a tensor's name if a value is not finite.
  void check_finite() const;

 private:
  /// The file's contents for a module in its own naming, and the diffusers modules that it is.
  struct Group {
    std::vector<model_files::Piece> pieces;
    adapters::LoraParts parts{};
  };
  using Groups = std::map<std::string, Group, std::less<>>;

  void read(const model_files::Layout* layout, std::array<Groups, 4>& groups);
  void add(const io::TensorView& tensor, const LoraKey& key, std::array<Groups, 4>& groups);
  void finish(const std::array<Groups, 4>& groups);
  void divide(std::span<const model_files::Piece> pieces, const Target& whole, Targets& targets);
  Target part_of(const Target& whole, const model_files::Piece& piece);
  void set_rows(const model_files::Piece& piece, Target& target);

  std::string path_;
  io::TensorFile file_;
  std::deque<io::TensorView> made_;  // rows of tensors, and reordered halves
  std::array<Targets, 4> targets_;   // by LoraMember
  const model_files::Family* family_ = nullptr;
  bool counts_by_layout_ = false;
  bool two_parts_ = false;
  std::optional<int64_t> only_expert_;
  std::vector<std::string> unknown_;
  std::vector<std::string> formats_;
};

/// What is done with tensors of a file that fit no parameter of the model.
enum class Unmatched : uint8_t {
  HARMLESS,  // skip the parts in harmless_parts.cpp, refuse others
  REFUSE,
  SKIP,
};

/// A LoRA file with its scale.
struct Adapter {
  std::shared_ptr<const Lora> lora;  // shared: one file may be for both experts
  double scale = 1;
  int64_t expert = 0;  // see Lora::targets
  LoraMember member = LoraMember::NETWORK;
  Unmatched unmatched = Unmatched::HARMLESS;

  const Lora::Targets& targets() const {
    return member == LoraMember::NETWORK ? lora->targets(expert) : lora->targets(member);
  }
};

/// The parts of adapters for a text encoder.
std::vector<Adapter> for_text(std::span<const Adapter> adapters, LoraMember text);

/// The ranks for applying these adapters' products to linear layers without merging: summed over
/// the adapters, and the maximum of a stack's layers. `specs` are those of the model without
/// adapters. Convolutions have none.
nn::LowRanks low_ranks(std::span<const Adapter> adapters, std::span<const nn::ParamSpec> specs);

/// The larger rank of each layer: for two experts that share a program.
nn::LowRanks greatest(nn::LowRanks a, const nn::LowRanks& b);

/// Adapters matched with a model's parameters.
///
/// If the specs have an adapter for a module (nn::ModelOptions::low_ranks), products are stored in
/// its parameters, with the ranks of several files concatenated; everything else changes the weight
/// or bias.
class Adapters {
 public:
  Adapters() = default;
  /// Throws an Error with file, key and both shapes if a difference does not fit its parameter, one
  /// with the keys that match none, unless Adapter::unmatched skips them, and one with both
  /// families if the file is for another one than the model's.
  Adapters(std::span<const Adapter> adapters, std::span<const nn::ParamSpec> specs);

  /// True if the parameter with this checkpoint key is changed.
  bool change(std::string_view key) const { return changes_.contains(key); }
  /// Adds every file's difference, in order, to the f32 values of one parameter (for adapter
  /// parameters: to zeros).
  void add_to(std::string_view key, std::span<float> values) const;
  /// One line per file: `NAME.safetensors: all 64 keys matched, 32 parameters, scale 1 (...)`, or
  /// `NAME.safetensors: 95 of 119 keys matched, 24 skipped (24 of image conditioning), ...`.
  const std::vector<std::string>& report() const { return report_; }

 private:
  enum class Part : uint8_t { WEIGHT, DIFF, BIAS, DOWN, UP, SCALE, METHOD, AS_IT_IS };
  struct Change {
    const Lora::Target* target;
    double scale;
    Part part;
    int64_t first = 0;                     // offset among the ranks of an adapter
    Dims dims = {};                        // METHOD: of the weight
    const io::TensorView* view = nullptr;  // AS_IT_IS
  };
  /// Stores a product in the adapter of `module`; false if it has none.
  bool apply_separately(const std::string& module, const Lora::Target& target, double scale,
                        const std::map<std::string, Shape, std::less<>>& shapes);
  /// The same for the tensors of a method that is trained.
  bool apply_method_separately(const std::string& module, const Lora::Target& target, double scale,
                               const std::map<std::string, Shape, std::less<>>& shapes);

  std::map<std::string, int64_t> taken_;  // by module: number of ranks in use
  std::vector<std::shared_ptr<const Lora>> files_;
  std::map<std::string, std::vector<Change>, std::less<>> changes_;
  std::vector<std::string> report_;
};

}  // namespace kinema::weights
