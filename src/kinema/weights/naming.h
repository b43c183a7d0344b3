#pragma once

#include <cstdint>

namespace kinema::weights {

/// How the names in a file are spelt: diffusers' and transformers', or the original release's.
enum class Naming : uint8_t { DIFFUSERS, ORIGINAL };

/// What a model's original names are read by; see names.h.
struct NameTable;

}  // namespace kinema::weights
