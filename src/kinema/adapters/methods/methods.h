#pragma once

#include <optional>
#include <vector>

#include "kinema/adapters/lora_method.h"
#include "kinema/nn/params.h"

/// The table of methods; each is in the file of its name.
namespace kinema::adapters {

extern const LoraMethod kPair;  // LoRA and LoCon: with Tucker's core, or with DoRA's norms
extern const LoraMethod kLoha;
extern const LoraMethod kLokr;
extern const LoraMethod kOft;
extern const LoraMethod kBoft;
extern const LoraMethod kPeftOft;       // with five terms of Neumann's series, PEFT's default
extern const LoraMethod kExactPeftOft;  // the same tensors; use_cayley_neumann of PEFT is false
extern const LoraMethod kGlora;
extern const LoraMethod kIa3;

inline bool has(const LoraParts& parts, LoraPart part) {
  return parts[static_cast<size_t>(part)] != nullptr;
}

/// The ending of the part's key in kohya's names, without a dot: `hada_w1_a`.
std::string_view part_name(LoraPart part);

/// The kind of adapter that trains these tensors; nothing if none does.
std::optional<nn::AdapterKind> trained_kind(const LoraMethod& method, const LoraParts& parts);

/// The name of a trained adapter's parameter that holds the part, without its layer:
/// `lora_A.weight`, `hada_w1_a`.
std::string_view trained_part(LoraPart part);

/// The inverse of a [n, n], which is not singular.
std::vector<double> inverse(std::vector<double> a, size_t n);

/// For methods whose rows do not depend on each other.
inline int64_t single_rows(const LoraParts&) { return 1; }
/// For methods without alpha.
inline int64_t no_rank(const LoraParts&) { return 0; }

}  // namespace kinema::adapters
