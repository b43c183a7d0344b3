#include "kinema/networks/named_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/networks/network.h"

namespace kinema::networks {

bool NamedInput::fits(const Dims& value, const Dims& latents) const {
  if (value.size() != 5 || latents.size() != 5 || value[0] != latents[0] || value[1] != channels) {
    return false;
  }
  const auto same_from = [&](size_t axis) {
    return std::equal(value.begin() + static_cast<int64_t>(axis), value.end(),
                      latents.begin() + static_cast<int64_t>(axis), latents.end());
  };
  switch (entry) {
    case Entry::CHANNELS:
      return same_from(2);
    case Entry::FIRST_FRAME:
      return value[2] == 1 && same_from(3);
    case Entry::TOKENS:
      return value[2] == 1 && value[3] > 0 && value[4] > 0;
    case Entry::BRANCH:
      return value[2] > 0 && value[2] <= latents[2] && same_from(3);
  }
  fail("[networks] unknown entry {}", static_cast<int>(entry));
}

std::string NamedInput::wanted(const Dims& latents) const {
  if (entry == Entry::TOKENS) {
    return fmt::format("[{}, {}, 1, h, w]", latents.at(0), channels);
  }
  Dims dims = latents;
  dims.at(1) = channels;
  dims.at(2) = entry == Entry::FIRST_FRAME ? 1 : dims[2];
  return to_string(dims) + (entry == Entry::BRANCH ? " or fewer frames" : "");
}

const NamedInput* find_entry(std::span<const NamedInput> inputs, Entry entry) {
  const auto found = std::ranges::find(inputs, entry, &NamedInput::entry);
  return found == inputs.end() ? nullptr : &*found;
}

void put(const NamedInput& input, Tensor value, Inputs& inputs) {
  Tensor& x = inputs.latents;
  check(input.fits(value.shape().dims, x.shape().dims),
        "[networks] the input `{}` is {}, expected {}", input.name, to_string(value.shape()),
        input.wanted(x.shape().dims));
  switch (input.entry) {
    case Entry::CHANNELS:
      x = concatenate({x, convert(value, x.dtype())}, Axis(1));
      return;
    case Entry::FIRST_FRAME:
      x = x.dim(2) == 1 ? value : concatenate({value, slice(x, Axis(2), 1, x.dim(2) - 1)}, Axis(2));
      return;
    case Entry::TOKENS:
      inputs.reference = value;
      return;
    case Entry::BRANCH:
      inputs.control = value;
      return;
  }
  fail("[networks] unknown entry {}", static_cast<int>(input.entry));
}

}  // namespace kinema::networks
