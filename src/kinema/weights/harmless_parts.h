#pragma once

#include <string_view>

namespace kinema::weights {

/// The kind of part of a LoRA file that a parameter's name, or a key without a module, is of, if
/// the rest of the file can be used without it: `image conditioning`. Empty for all other names.
/// `is_other_size`: the model has the parameter with another shape.
std::string_view harmless_kind(std::string_view name, bool is_other_size = false);

}  // namespace kinema::weights
