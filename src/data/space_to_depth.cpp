#include "data/space_to_depth.h"

#include "core/error.h"

namespace kinema::data {
namespace {

// Calls move(pixel index, latent index) for every value of a clip of f32 [3, f, h, w].
template <typename Move>
void for_each_value(const SpaceToDepth& s, int64_t frames, int64_t height, int64_t width,
                    Move&& move) {
  const int64_t lf = frames / s.temporal;
  const int64_t lh = height / s.block;
  const int64_t lw = width / s.block;
  int64_t pixel = 0;
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t f = 0; f < frames; ++f) {
      for (int64_t y = 0; y < height; ++y) {
        const int64_t block_row =
            ((c * s.temporal + f % s.temporal) * s.block + y % s.block) * s.block;
        for (int64_t x = 0; x < width; ++x) {
          const int64_t channel = block_row + x % s.block;
          move(pixel++, ((channel * lf + f / s.temporal) * lh + y / s.block) * lw + x / s.block);
        }
      }
    }
  }
}

}  // namespace

Shape SpaceToDepth::latent_shape(int64_t frames, int64_t height, int64_t width) const {
  check(block > 0 && temporal > 0 && scale != 0,
        "[space_to_depth] block {}, temporal {} and scale {} must be positive", block, temporal,
        scale);
  check(frames > 0 && height > 0 && width > 0 && frames % temporal == 0 && height % block == 0 &&
            width % block == 0,
        "[space_to_depth] {} frames of {}x{} do not divide into blocks of {} frames, {}x{} pixels",
        frames, width, height, temporal, block, block);
  return {DType::F32, {channels(), frames / temporal, height / block, width / block}};
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
  HostArray out(Shape{DType::F32,
                      {3, shape.dims[1] * temporal, shape.dims[2] * block, shape.dims[3] * block}});
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
