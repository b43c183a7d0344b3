#pragma once

#include <cstdint>

namespace kinema::model_files {

/// The naming of a file's tensors: that of diffusers and transformers, or the original release's.
enum class Naming : uint8_t { DIFFUSERS, ORIGINAL };

/// A table of a model's original names; see names.h.
struct NameTable;

}  // namespace kinema::model_files
