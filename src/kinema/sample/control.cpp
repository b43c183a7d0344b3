#include "kinema/sample/control.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"

namespace kinema::sample {

void check_controls(const Controls& controls, const networks::Sizes& network) {
  const int64_t wanted = network.control_cell > 0 ? network.control_layers : 0;
  const auto count = std::ssize(controls.pictures);
  check(count == wanted,
        "[sample] there are {} control pictures, but the ControlNets follow {}\n  controlnet=MODEL "
        "and control_image=FILE belong together",
        count, wanted);
  for (const ControlPicture& each : controls.pictures) {
    check(each.picture.shape.dtype == DType::U8 && each.picture.shape.rank() == 3 &&
              each.picture.shape.dims[2] == 3,
          "[sample] the control picture is {}, expected u8[h,w,3]", to_string(each.picture.shape));
    check(std::isfinite(each.scale), "[sample] control_scale is {}, expected a number", each.scale);
    check(each.start >= 0.0 && each.start < each.end && each.end <= 1.0,
          "[sample] control_start is {} and control_end {}, expected 0 <= start < end <= 1",
          each.start, each.end);
  }
}

HostArray control_pixels(const Controls& controls, const VideoSizes& sizes) {
  if (!controls.is_given()) {
    return {};
  }
  HostArray out(
      Shape{DType::F32, {3 * std::ssize(controls.pictures), 1, sizes.height, sizes.width}});
  auto to = out.as<float>().begin();
  for (const ControlPicture& each : controls.pictures) {
    const HostArray pixels = encoders::autoencoder_pixels(each.picture, sizes.height, sizes.width);
    to = std::ranges::transform(pixels.as<float>(), to, [](float value) {
           return 0.5F * (value + 1.0F);
         }).out;
  }
  return out;
}

std::vector<double> control_scales(const Controls& controls, int64_t step, int64_t steps) {
  const auto i = static_cast<double>(step);
  const auto n = static_cast<double>(steps);
  std::vector<double> out;
  for (const ControlPicture& each : controls.pictures) {
    out.push_back(i / n < each.start || (i + 1) / n > each.end ? 0.0 : each.scale);
  }
  return out;
}

}  // namespace kinema::sample
