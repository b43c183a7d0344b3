#include "kinema/media/control_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/media/blur.h"
#include "kinema/media/canny.h"
#include "kinema/media/resample.h"

namespace kinema::media {
namespace {

using Kind = ControlRecipe::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 5> kKinds{{{"given", Kind::GIVEN},
                                                                   {"canny", Kind::CANNY},
                                                                   {"tile", Kind::TILE},
                                                                   {"blur", Kind::BLUR},
                                                                   {"grey", Kind::GREY}}};

/// Kinds that need a network of their own, and the tools that people use for them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kMadeElsewhere{
    {{"depth", "Depth Anything, or MidasDetector of controlnet_aux"},
     {"normal", "NormalBaeDetector of controlnet_aux"},
     {"openpose", "OpenposeDetector of controlnet_aux, or DWPose"},
     {"pose", "OpenposeDetector of controlnet_aux, or DWPose"},
     {"hed", "HEDdetector of controlnet_aux"},
     {"softedge", "HEDdetector or PidiNetDetector of controlnet_aux"},
     {"scribble", "HEDdetector of controlnet_aux"},
     {"lineart", "LineartDetector of controlnet_aux"},
     {"mlsd", "MLSDdetector of controlnet_aux"},
     {"segment", "SamDetector of controlnet_aux"},
     {"face", "MediapipeFaceDetector of controlnet_aux"},
     {"shuffle", "ContentShuffleDetector of controlnet_aux"}}};

/// One value a pixel as three equal channels.
HostArray three_channels(const HostArray& grey) {
  HostArray out(Shape{DType::U8, {grey.shape.dims[0], grey.shape.dims[1], 3}});
  auto to = out.as<uint8_t>().begin();
  for (const uint8_t value : grey.as<uint8_t>()) {
    to = std::fill_n(to, 3, value);
  }
  return out;
}

HostArray resized(const HostArray& picture, int64_t height, int64_t width) {
  const Dims& from = picture.shape.dims;
  HostArray out(Shape{DType::U8, {height, width, 3}});
  resample(picture.as<uint8_t>(), from[0], from[1], 3, out.as<uint8_t>(), height, width,
           Filter::Lanczos);
  return out;
}

HostArray tile(const HostArray& picture) {
  constexpr int64_t kShrink = 4;
  const int64_t h = picture.shape.dims[0];
  const int64_t w = picture.shape.dims[1];
  return resized(
      resized(picture, std::max<int64_t>(h / kShrink, 1), std::max<int64_t>(w / kShrink, 1)), h, w);
}

HostArray blurred(const HostArray& picture, double deviation) {
  const int64_t h = picture.shape.dims[0];
  const int64_t w = picture.shape.dims[1];
  HostArray out(picture.shape);
  const auto from = picture.as<uint8_t>();
  const auto to = out.as<uint8_t>();
  std::vector<float> plane(static_cast<size_t>(h * w));
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < plane.size(); ++i) {
      plane[i] = static_cast<float>(from[3 * i + c]);
    }
    const std::vector<float> values = gaussian_blur(plane, h, w, deviation);
    for (size_t i = 0; i < values.size(); ++i) {
      to[3 * i + c] = static_cast<uint8_t>(std::lround(std::clamp(values[i], 0.0F, 255.0F)));
    }
  }
  return out;
}

}  // namespace

HostArray luminance(const HostArray& picture) {
  HostArray out(Shape{DType::U8, {picture.shape.dims[0], picture.shape.dims[1]}});
  const auto from = picture.as<uint8_t>();
  const auto to = out.as<uint8_t>();
  for (size_t i = 0; i < to.size(); ++i) {
    const uint32_t sum =
        19595U * from[3 * i] + 38470U * from[3 * i + 1] + 7471U * from[3 * i + 2] + 0x8000U;
    to[i] = static_cast<uint8_t>(sum >> 16U);
  }
  return out;
}

Kind control_kind(std::string_view name) {
  for (const auto& [known, kind] : kKinds) {
    if (name == known) {
      return kind;
    }
  }
  for (const auto& [other, tool] : kMadeElsewhere) {
    check(name != other,
          "[media] control_kind `{}` is not made here: it needs a network of its own\n  make the "
          "picture with {}, and give it with control_kind=given",
          name, tool);
  }
  fail("[media] control_kind is `{}`, expected given, canny, tile, blur or grey", name);
}

HostArray control_picture(const HostArray& picture, const ControlRecipe& recipe) {
  const Dims& dims = picture.shape.dims;
  check(picture.shape.dtype == DType::U8 && dims.size() == 3 && dims[2] == 3,
        "[media] the picture is {}, expected u8[h,w,3]", to_string(picture.shape));
  switch (recipe.kind) {
    case Kind::GIVEN:
      return picture;
    case Kind::CANNY:
      return three_channels(canny(picture, recipe.low, recipe.high));
    case Kind::TILE:
      return tile(picture);
    case Kind::BLUR:
      return blurred(picture, recipe.deviation);
    case Kind::GREY:
      return three_channels(luminance(picture));
  }
  fail("[media] unknown kind of control picture {}", static_cast<int>(recipe.kind));
}

}  // namespace kinema::media
