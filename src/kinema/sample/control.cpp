#include "kinema/sample/control.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"

namespace kinema::sample {
namespace {

/// Value i of `layers`: one for all, or none.
double value_at(const std::vector<double>& given, int64_t i, int64_t layers, double otherwise,
                std::string_view key) {
  check(given.size() <= 1 || std::ssize(given) == layers,
        "[sample] {} has {} numbers, expected one for all or {}: one for each picture of a "
        "ControlNet, "
        "or for each block of a control branch",
        key, given.size(), layers);
  return given.empty() ? otherwise : given[given.size() == 1 ? 0 : static_cast<size_t>(i)];
}

}  // namespace

std::vector<ControlScale> control_scales(const networks::Sizes& network, const GivenFiles& files) {
  const int64_t layers = network.control_layers;
  check(layers > 0 || (files.control_scale.empty() && files.control_start.empty() &&
                       files.control_end.empty()),
        "[sample] this model has no control branch and no ControlNet: control_scale, control_start "
        "and control_end must be empty");
  std::vector<ControlScale> out;
  for (int64_t i = 0; i < layers; ++i) {
    const ControlScale each{.scale = value_at(files.control_scale, i, layers, 1.0, "control_scale"),
                            .start = value_at(files.control_start, i, layers, 0.0, "control_start"),
                            .end = value_at(files.control_end, i, layers, 1.0, "control_end")};
    check(std::isfinite(each.scale), "[sample] control_scale is {}, expected a number", each.scale);
    check(each.start >= 0.0 && each.start < each.end && each.end <= 1.0,
          "[sample] control_start is {} and control_end {}, expected 0 <= start < end <= 1",
          each.start, each.end);
    out.push_back(each);
  }
  return out;
}

HostArray scales_at(std::span<const ControlScale> scales, int64_t step, int64_t steps) {
  const auto i = static_cast<double>(step);
  const auto n = static_cast<double>(steps);
  std::vector<float> out;
  for (const ControlScale& each : scales) {
    const bool off = i / n < each.start || (i + 1) / n > each.end;
    out.push_back(off ? 0.0F : static_cast<float>(each.scale));
  }
  return HostArray::f32({std::ssize(out)}, out);
}

HostArray control_pixels(std::span<const HostArray> pictures, const VideoSizes& sizes) {
  HostArray out(Shape{DType::F32, {3 * std::ssize(pictures), 1, sizes.height, sizes.width}});
  auto to = out.as<float>().begin();
  for (const HostArray& each : pictures) {
    const HostArray pixels = encoders::autoencoder_pixels(each, sizes.height, sizes.width);
    to = std::ranges::transform(pixels.as<float>(), to, [](float value) {
           return 0.5F * (value + 1.0F);
         }).out;
  }
  return out;
}

}  // namespace kinema::sample
