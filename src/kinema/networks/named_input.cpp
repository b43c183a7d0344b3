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
    case Entry::FRONT:
      return value[2] == 1 && same_from(3);
    case Entry::CAMERA:
      return value[2] == latents[2] && value[3] == cell * latents[3] &&
             value[4] == cell * latents[4];
    case Entry::TOKENS:
      return value[2] == 1 && value[3] > 0 && value[4] > 0;
    case Entry::BRANCH:
      return value[2] > 0 && value[2] <= latents[2] && same_from(3);
    case Entry::POSES:
      return value[2] == latents[2] - 1 && same_from(3);
    case Entry::FACES:
      return value[2] == face_pictures(latents[2]) && value[3] == cell && value[4] == cell;
    case Entry::PICTURES:
      return value[2] == 1 && value[3] == cell * latents[3] && value[4] == cell * latents[4];
  }
  fail("[networks] unknown entry {}", static_cast<int>(entry));
}

std::string NamedInput::wanted(const Dims& latents) const {
  if (entry == Entry::TOKENS) {
    return fmt::format("[{}, {}, 1, h, w]", latents.at(0), channels);
  }
  Dims dims = latents;
  dims.at(1) = channels;
  const bool is_one =
      entry == Entry::FIRST_FRAME || entry == Entry::FRONT || entry == Entry::PICTURES;
  dims.at(2) = is_one ? 1 : dims[2];
  if (entry == Entry::FACES) {
    return to_string(Dims{dims[0], channels, face_pictures(dims[2]), cell, cell});
  }
  dims[2] -= entry == Entry::POSES ? 1 : 0;
  dims.at(3) *= cell;
  dims.at(4) *= cell;
  return to_string(dims) + (entry == Entry::BRANCH ? " or fewer frames" : "");
}

int64_t face_pictures(int64_t frames) {
  constexpr int64_t kOfLatent = 4;
  return kOfLatent * (frames - 2) + 1;
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
    case Entry::FRONT:
      inputs.reference = value;
      return;
    case Entry::CAMERA:
      inputs.camera = value;
      return;
    case Entry::POSES:
      inputs.poses = value;
      return;
    case Entry::FACES:
      inputs.faces = value;
      return;
    case Entry::BRANCH:
    case Entry::PICTURES:
      inputs.control = value;
      return;
  }
  fail("[networks] unknown entry {}", static_cast<int>(input.entry));
}

}  // namespace kinema::networks
