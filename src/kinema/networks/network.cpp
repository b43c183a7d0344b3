#include "kinema/networks/network.h"

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::networks {

const NamedInput* Sizes::stored_input() const {
  const auto found = std::ranges::find_if(
      named, [](const NamedInput& input) { return input.entry != Entry::FIRST_FRAME; });
  return found == named.end() ? nullptr : &*found;
}

int64_t Sizes::tokens(const Dims& latents) const {
  check(latents.size() >= patch_size.size(), "[networks] latents {} are not [..., f, h, w]",
        to_string(latents));
  const size_t first = latents.size() - patch_size.size();
  int64_t out = 1;
  for (size_t axis = 0; axis < patch_size.size(); ++axis) {
    out *= latents[first + axis] / patch_size[axis];
  }
  return out;
}

Tensor Architecture::face_tokens(std::span<const Tensor>, const nn::ModelOptions&, Tensor) const {
  fail("[networks] this network reads no faces");
}

Value Architecture::face_token_value(const nn::ModelOptions&, int64_t, const Dims&) const {
  fail("[networks] this network reads no faces");
}

}  // namespace kinema::networks
