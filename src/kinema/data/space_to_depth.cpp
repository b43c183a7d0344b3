#include "kinema/data/space_to_depth.h"

#include "kinema/core/error.h"

namespace kinema::data {
namespace {

/// The latent coordinates of one coordinate of a pixel.
struct Place {
  int64_t channel;  // among the coordinates of one token
  int64_t token;
};

/// `size` coordinates divided into `regions` ranges, each of blocks of `block`.
Place place(int64_t x, int64_t size, int64_t block, int64_t regions) {
  const int64_t stretch = size / regions;
  return {x / stretch * block + x % block, x % stretch / block};
}

// Calls move(pixel index, latent index) for every value of a clip of f32 [3, f, h, w].
template <typename Move>
void for_each_value(const SpaceToDepth& s, int64_t frames, int64_t height, int64_t width,
                    Move&& move) {
  const int64_t lf = frames / s.frames();
  const int64_t lh = height / s.side();
  const int64_t lw = width / s.side();
  int64_t pixel = 0;
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t f = 0; f < frames; ++f) {
      const Place at_f = place(f, frames, s.temporal, s.temporal_regions);
      for (int64_t y = 0; y < height; ++y) {
        const Place at_y = place(y, height, s.block, s.regions);
        const int64_t row = ((c * s.frames() + at_f.channel) * s.side() + at_y.channel) * s.side();
        for (int64_t x = 0; x < width; ++x) {
          const Place at_x = place(x, width, s.block, s.regions);
          move(pixel++,
               (((row + at_x.channel) * lf + at_f.token) * lh + at_y.token) * lw + at_x.token);
        }
      }
    }
  }
}

}  // namespace

Shape SpaceToDepth::latent_shape(int64_t num_frames, int64_t height, int64_t width) const {
  check(block > 0 && temporal > 0 && regions > 0 && temporal_regions > 0 && scale != 0,
        "[space_to_depth] block {}, temporal {}, regions {} and {} and scale {} must be positive",
        block, temporal, regions, temporal_regions, scale);
  check(num_frames > 0 && height > 0 && width > 0 && num_frames % frames() == 0 &&
            height % side() == 0 && width % side() == 0,
        "[space_to_depth] {} frames of {}x{} do not divide into blocks of {} frames, {}x{} pixels",
        num_frames, width, height, frames(), side(), side());
  return {DType::F32, {channels(), num_frames / frames(), height / side(), width / side()}};
}

HostArray SpaceToDepth::encode(const HostArray& pixels) const {
  const Shape& shape = pixels.shape;
  check(shape.dtype == DType::F32 && shape.rank() == 4 && shape.dims[0] == 3,
        "[space_to_depth] encode was given {}, f32 [3, f, h, w] was expected", to_string(shape));
  HostArray out(latent_shape(shape.dims[1], shape.dims[2], shape.dims[3]));
  const auto in = pixels.as<float>();
  const auto to = out.as<float>();
  for_each_value(*this, shape.dims[1], shape.dims[2], shape.dims[3],
                 [&](int64_t pixel, int64_t latent) {
                   to[static_cast<size_t>(latent)] =
                       static_cast<float>((in[static_cast<size_t>(pixel)] - shift) * scale);
                 });
  return out;
}

HostArray SpaceToDepth::decode(const HostArray& latents) const {
  const Shape& shape = latents.shape;
  check(shape.dtype == DType::F32 && shape.rank() == 4 && shape.dims[0] == channels(),
        "[space_to_depth] decode was given {}, f32 [{}, f, h, w] was expected", to_string(shape),
        channels());
  HostArray out(Shape{
      DType::F32, {3, shape.dims[1] * frames(), shape.dims[2] * side(), shape.dims[3] * side()}});
  const auto in = latents.as<float>();
  const auto to = out.as<float>();
  for_each_value(*this, out.shape.dims[1], out.shape.dims[2], out.shape.dims[3],
                 [&](int64_t pixel, int64_t latent) {
                   to[static_cast<size_t>(pixel)] =
                       static_cast<float>(in[static_cast<size_t>(latent)] / scale + shift);
                 });
  return out;
}

}  // namespace kinema::data
