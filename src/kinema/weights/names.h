#pragma once

#include <optional>
#include <string>
#include <string_view>

/// The transformer's modules under the names of diffusers and of the original Wan release: one
/// table for checkpoints and LoRA files.
namespace kinema::weights {

/// How the names in a file are spelt.
enum class Naming { DIFFUSERS, ORIGINAL };

/// A module (or a parameter that is no module's, such as `blocks.0.scale_shift_table`) of the Wan
/// transformer.
struct ModuleName {
  std::string diffusers;  // `blocks.0.attn1.to_q`
  Naming naming;          // what it was written in
};

/// Reads `blocks.0.self_attn.q` or `blocks.0.attn1.to_q`; nothing for a name of neither.
///
/// A module that both name alike (`patch_embedding`) counts as diffusers'.
std::optional<ModuleName> read_module(std::string_view name);

/// The same for names whose dots became underscores: `blocks_0_self_attn_q`.
std::optional<ModuleName> read_underscored(std::string_view name);

/// The diffusers key of an original one (`blocks.0.self_attn.q.weight` ->
/// `blocks.0.attn1.to_q.weight`); nothing for a key that is not original Wan's.
std::optional<std::string> diffusers_key(std::string_view original);

/// The reverse: the original release's key of a diffusers key; nothing for one that is not a Wan
/// transformer's.
std::optional<std::string> original_key(std::string_view diffusers);

}  // namespace kinema::weights
