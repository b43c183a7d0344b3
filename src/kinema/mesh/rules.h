#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json_text.h"

namespace kinema::mesh {

/// The mesh axes of one logical axis, major first; none: it is not sharded.
struct Rule {
  std::string logical;
  std::vector<std::string> mesh_axes;
  bool operator==(const Rule&) const = default;
};

/// Ordered rules from logical to mesh axes, as in flax and MaxDiffusion.
class AxisRules {
 public:
  AxisRules() = default;
  explicit AxisRules(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  /// From a configuration's list: `[["batch", ["data", "fsdp"]], ["heads", "tensor"], ["kv",
  /// null]]`. `key` is the list's key in errors.
  static AxisRules parse(const io::JsonText& list, std::string_view key);

  /// The mesh axes of each dimension of a tensor with these logical axes ("": none).
  ///
  /// Rules are tried in order. A rule applies if its logical axis has no rule yet and none of its
  /// mesh axes is used by another dimension, regardless of sizes. Throws an Error if a logical axis
  /// appears twice, because the rule would be ambiguous.
  std::vector<std::vector<std::string>> assign(std::span<const std::string> logical) const;

  /// The mesh axes of a logical axis in a tensor without other axes.
  std::vector<std::string> axes_of(std::string_view logical) const;
  bool has(std::string_view logical) const;

  /// The rules, preceded by rules for attention's lengths and heads if attention is of a kind that
  /// exchanges keys (`ring`, `ulysses`) or if `uniform`: queries of self- and cross-attention are
  /// sharded like `activation_length`, heads like `activation_heads`. The attention kind shards
  /// keys and values.
  AxisRules for_attention(std::string_view attention, bool uniform) const;

  /// The rules for a batch whose tokens use `fsdp`: `activation_batch` is without it, and in the
  /// rules of other activations it follows `context`. Weights keep their sharding. Unchanged if
  /// `activation_length` is not sharded over `context`.
  AxisRules with_tokens_on_fsdp() const;

  const std::vector<Rule>& rules() const { return rules_; }
  bool operator==(const AxisRules&) const = default;

 private:
  std::vector<Rule> rules_;
};

}  // namespace kinema::mesh
