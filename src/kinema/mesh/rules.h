#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json_text.h"

namespace kinema::mesh {

/// Where one logical axis lies: on these mesh axes, major first; none pins it to be whole.
struct Rule {
  std::string logical;
  std::vector<std::string> mesh_axes;
  bool operator==(const Rule&) const = default;
};

/// Ordered rules from logical to mesh axes, with the meaning they have in flax and MaxDiffusion.
class AxisRules {
 public:
  AxisRules() = default;
  explicit AxisRules(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  /// From a configuration's list: `[["batch", ["data", "fsdp"]], ["heads", "tensor"], ["kv",
  /// null]]`. `key` names the list in errors.
  static AxisRules parse(const io::JsonText& list, std::string_view key);

  /// The mesh axes of each dimension of a tensor with these logical axes ("": none).
  ///
  /// Rules are tried in order. One takes effect when its logical axis has no rule yet and none of
  /// its mesh axes is taken by another dimension, whatever the axes' sizes. Throws an Error when a
  /// logical axis appears twice: which dimension the rule means could not be said.
  std::vector<std::vector<std::string>> assign(std::span<const std::string> logical) const;

  /// The mesh axes that a logical axis lies on where nothing competes with it.
  std::vector<std::string> axes_of(std::string_view logical) const;
  bool has(std::string_view logical) const;

  /// The rules with those for attention's lengths and heads in front, when attention is of a kind
  /// that moves keys around (`ring`, `ulysses`) or `uniform` asks for it: queries of self- and
  /// cross-attention lie as `activation_length` does, heads as `activation_heads`. Where keys and
  /// values lie is the kind's affair.
  AxisRules for_attention(std::string_view attention, bool uniform) const;

  /// The rules for a batch that leaves `fsdp` to its tokens: `activation_batch` is without it, and
  /// in the rules of other activations it follows `context`. Weights lie as before. The rules as
  /// they are where `activation_length` does not lie on `context`.
  AxisRules with_tokens_on_fsdp() const;

  const std::vector<Rule>& rules() const { return rules_; }
  bool operator==(const AxisRules&) const = default;

 private:
  std::vector<Rule> rules_;
};

}  // namespace kinema::mesh
