#pragma once

#include <cstdint>
#include <string_view>

#include "kinema/core/host_array.h"

namespace kinema::media {

/// How a picture that ControlNets follow is made of another one.
struct ControlRecipe {
  enum class Kind : uint8_t {
    GIVEN,  // as it is
    CANNY,  // its edges, white on black
    TILE,   // its coarse structure: shrunk to a quarter of its sides and enlarged again
    BLUR,   // blurred
    GREY,   // its luminance
  };
  Kind kind = Kind::GIVEN;
  // CANNY: the changes at which an edge goes on, and begins.
  int64_t low = 100;
  int64_t high = 200;
  double deviation = 9.0;  // BLUR: standard deviation in pixels
};

/// The kind with the name given, canny, tile, blur or grey. For kinds that other programs make
/// (depth, openpose, lineart ...) and other names it throws an Error that says which.
ControlRecipe::Kind control_kind(std::string_view name);

/// The picture as grey values, u8 [h, w, 3] -> [h, w], with the weights of PIL's mode L.
HostArray luminance(const HostArray& picture);

/// u8 [h, w, 3] -> the same.
HostArray control_picture(const HostArray& picture, const ControlRecipe& recipe);

}  // namespace kinema::media
