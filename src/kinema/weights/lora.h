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

#include "kinema/io/safetensors.h"
#include "kinema/nn/params.h"
#include "kinema/weights/family.h"
#include "kinema/weights/lora_member.h"

namespace kinema::weights {

struct Layout;
struct LoraKey;
struct Piece;

/// The file that diffusers' save_lora_weights writes into a folder, and PEFT's two.
inline constexpr const char* kLoraFile = "pytorch_lora_weights.safetensors";
inline constexpr const char* kPeftFile = "adapter_model.safetensors";
inline constexpr const char* kPeftConfig = "adapter_config.json";
/// Whether PEFT, diffusers or a run wrote a LoRA file into the folder.
bool is_lora_folder(const std::filesystem::path& path);
/// Metadata of files that kinema trains for one expert of two. In diffusers' names keys of either
/// begin with the word transformer, and load_lora_weights is told which is meant.
inline constexpr const char* kExpertKey = "kinema.expert";
inline constexpr const char* kHighNoise = "high_noise";
inline constexpr const char* kLowNoise = "low_noise";

/// A LoRA file: low-rank and full differences of the parameters of a network, and of the text
/// encoders of its pipeline.
///
/// The weight of a module becomes
///
///     W + s (alpha / rank up down + diff),      alpha = rank where the file has none
///
/// and its bias b + s (alpha / rank up_bias + diff_b), s being the adapter's scale. The product of
/// convolutions (`patch_embedding`) is that of their kernels flattened. A pair of a module that the
/// original joins of several is one pair of each: the rows of up that are its, and the same down.
class Lora {
 public:
  /// What the file has for one module, under its diffusers name.
  struct Target {
    const io::TensorView* down = nullptr;
    const io::TensorView* up = nullptr;
    const io::TensorView* up_bias = nullptr;
    const io::TensorView* diff = nullptr;
    const io::TensorView* diff_bias = nullptr;
    const io::TensorView* alpha = nullptr;
    /// alpha / rank; 1 without a product.
    double factor = 1;

    int64_t rank() const { return down == nullptr ? 0 : down->shape.dims[0]; }
  };
  using Targets = std::map<std::string, Target, std::less<>>;

  /// Reads a safetensors file, or the one in a folder of PEFT's (adapter_model.safetensors and
  /// adapter_config.json) or diffusers'. Alpha is taken from the file's keys, else from its
  /// metadata as diffusers writes it, else from adapter_config.json.
  ///
  /// The file's family is the one that most of its keys name modules of. `layout`: what the names
  /// of a model count by, where they do; null: as that of the released one.
  ///
  /// Throws an Error for a damaged file, one with no LoRA key, another method (DoRA, LoHa, LoKr),
  /// half a pair, a rank that differs between the halves, an alpha that is no finite number, and
  /// two keys that mean the same.
  static Lora open(const std::filesystem::path& path, const Layout* layout = nullptr);

  const std::string& path() const { return path_; }
  /// That of its network; null where it changes text encoders alone.
  const Family* family() const { return family_; }
  /// By module. `expert` is 1 for the low-noise transformer of a file that has both
  /// (`transformer.` and `transformer_2.` keys). Other files have one set for whichever they are
  /// given to.
  const Targets& targets(int64_t expert = 0) const {
    return targets_[two_parts_ && expert == 1 ? 1 : 0];
  }
  /// The same of a text encoder.
  const Targets& targets(LoraMember text) const { return targets_[static_cast<size_t>(text)]; }
  /// Names in it count by sizes of the model, which the file does not say.
  bool counts_by_layout() const { return counts_by_layout_; }
  /// The file holds a set for each of two experts.
  bool has_two_parts() const { return two_parts_; }
  /// The expert that the file says it is for, 0 or 1, by its metadata or because all its keys begin
  /// with transformer_2; nothing where it is for whichever it is given to.
  std::optional<int64_t> only_expert() const { return only_expert_; }
  /// Keys that are none of any format, or name no module of the family.
  const std::vector<std::string>& unknown() const { return unknown_; }
  /// `diffusers names, rank 16, 240 modules of Wan`.
  std::string summary() const;
  /// Reads all of it. Throws an Error naming a tensor that holds a value that is not finite.
  void check_finite() const;

 private:
  /// What the file has for a module of its own names, and what modules of diffusers that is.
  struct Group {
    std::vector<Piece> pieces;
    Target whole;
  };
  using Groups = std::map<std::string, Group, std::less<>>;

  void read(const Layout* layout, std::array<Groups, 4>& groups);
  void add(const io::TensorView& tensor, const LoraKey& key, std::array<Groups, 4>& groups);
  void finish(const std::array<Groups, 4>& groups);
  void divide(const Group& group, Targets& targets);
  Target part_of(const Target& whole, const Piece& piece);

  std::string path_;
  io::SafetensorsFile file_;
  std::deque<io::TensorView> made_;  // rows of tensors, and halves in another order
  std::array<Targets, 4> targets_;   // by LoraMember
  const Family* family_ = nullptr;
  bool counts_by_layout_ = false;
  bool two_parts_ = false;
  std::optional<int64_t> only_expert_;
  std::vector<std::string> unknown_;
  std::vector<std::string> formats_;
};

/// A LoRA file in use.
struct Adapter {
  std::shared_ptr<const Lora> lora;  // shared: one file may be for both experts
  double scale = 1;
  int64_t expert = 0;  // see Lora::targets
  LoraMember member = LoraMember::NETWORK;

  const Lora::Targets& targets() const {
    return member == LoraMember::NETWORK ? lora->targets(expert) : lora->targets(member);
  }
};

/// The parts of adapters that are for a text encoder.
std::vector<Adapter> for_text(std::span<const Adapter> adapters, LoraMember text);

/// The ranks with which these adapters' products on linear layers can stay apart from the weights:
/// summed over the adapters, and the greatest of a stack's layers. `specs` are those of the model
/// without them. Convolutions have none.
nn::LowRanks low_ranks(std::span<const Adapter> adapters, std::span<const nn::ParamSpec> specs);

/// The greater rank of each layer: for two experts that share a program.
nn::LowRanks greatest(nn::LowRanks a, const nn::LowRanks& b);

/// Adapters fitted to a model's parameters.
///
/// Where the specs have a low-rank addition for a module (nn::ModelOptions::low_ranks), products
/// are put into its parameters, one adapter's ranks after the other's; everything else changes the
/// weight or bias itself.
class Adapters {
 public:
  Adapters() = default;
  /// Throws an Error naming file, key and both shapes where a difference does not fit its
  /// parameter, one naming the keys that fit none, and one naming both families where the file is
  /// for another than the model's.
  Adapters(std::span<const Adapter> adapters, std::span<const nn::ParamSpec> specs);

  /// True when a parameter under this checkpoint key changes.
  bool change(std::string_view key) const { return changes_.contains(key); }
  /// Adds every adapter's difference, in the order given, to the f32 values of one parameter (of a
  /// low-rank addition: to zeros).
  void add_to(std::string_view key, std::span<float> values) const;
  /// One line a file: `NAME.safetensors: all 64 keys matched, 32 parameters, scale 1 (...)`.
  const std::vector<std::string>& report() const { return report_; }

 private:
  enum class Part : uint8_t { WEIGHT, DIFF, BIAS, DOWN, UP, SCALE };
  struct Change {
    const Lora::Target* target;
    double scale;
    Part part;
    int64_t first = 0;  // of the ranks of a low-rank addition
  };
  /// Puts a product into the addition for `module`; false where there is none.
  bool keep_apart(const std::string& module, const Lora::Target& target, double scale,
                  const std::map<std::string, Shape, std::less<>>& shapes);

  std::map<std::string, int64_t> taken_;  // by module: ranks in use
  std::vector<std::shared_ptr<const Lora>> files_;
  std::map<std::string, std::vector<Change>, std::less<>> changes_;
  std::vector<std::string> report_;
};

}  // namespace kinema::weights
