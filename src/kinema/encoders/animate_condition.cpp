#include "kinema/encoders/animate_condition.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"
#include "kinema/media/image.h"

namespace kinema::encoders {
namespace {

/// The picture scaled to fit, in the middle of a black one: u8 [height, width, 3].
HostArray letterboxed(const HostArray& picture, int64_t height, int64_t width) {
  const int64_t h = picture.shape.dims.at(0);
  const int64_t w = picture.shape.dims.at(1);
  // As the reference rounds.
  const bool is_wider = static_cast<double>(width) / static_cast<double>(height) <
                        static_cast<double>(w) / static_cast<double>(h);
  const int64_t rows = std::max<int64_t>(1, is_wider ? h * width / w : height);
  const int64_t columns = std::max<int64_t>(1, is_wider ? width : w * height / h);
  const HostArray scaled = media::resize_image(picture, rows, columns, media::Filter::Lanczos);
  const int64_t top = height / 2 - rows / 2;
  const int64_t left = width / 2 - columns / 2;
  HostArray out(Shape{DType::U8, {height, width, 3}});
  for (int64_t y = 0; y < rows; ++y) {
    std::copy_n(scaled.bytes.begin() + y * columns * 3, columns * 3,
                out.bytes.begin() + ((top + y) * width + left) * 3);
  }
  return out;
}

/// The known part at the latents' cells, f32 [f, h, w]: the first pixel of each.
HostArray known_cells(const AnimatedVideo& given, const PixelSizes& sizes, int64_t cell) {
  const int64_t h = sizes.height / cell;
  const int64_t w = sizes.width / cell;
  HostArray out(Shape{DType::F32, {sizes.num_frames, h, w}});
  const auto to = out.as<float>();
  const int64_t known = given.before.bytes.empty() ? 0 : given.before.shape.dims.at(1);
  std::fill_n(to.begin(), known * h * w, 1.0F);
  if (given.mask.bytes.empty()) {
    return out;
  }
  const Dims& d = given.mask.shape.dims;
  const auto from = given.mask.as<uint8_t>();
  HostArray picture(Shape{DType::U8, {d[1], d[2], 3}});
  for (int64_t frame = known; frame < sizes.num_frames; ++frame) {
    const auto pixels = picture.as<uint8_t>();
    for (size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = from[static_cast<size_t>(frame * d[1] * d[2]) + i / 3];
    }
    const HostArray scaled =
        media::resize_image(picture, sizes.height, sizes.width, media::Filter::Lanczos);
    for (int64_t i = 0; i < h * w; ++i) {
      const int64_t pixel = i / w * cell * sizes.width + i % w * cell;
      const auto made = static_cast<float>(scaled.as<uint8_t>()[static_cast<size_t>(3 * pixel)]);
      to[frame * h * w + i] = 1.0F - made / 255.0F;
    }
  }
  return out;
}

/// The video's known pixels, f32 [3, f, H, W]; zeros elsewhere.
HostArray known_pixels(const AnimatedVideo& given, const PixelSizes& sizes) {
  HostArray out =
      given.background.bytes.empty()
          ? HostArray(Shape{DType::F32, {3, sizes.num_frames, sizes.height, sizes.width}})
          : video_pixels(given.background, sizes.height, sizes.width);
  if (given.before.bytes.empty()) {
    return out;
  }
  const int64_t plane = sizes.height * sizes.width;
  const int64_t known = given.before.shape.dims.at(1);
  for (int64_t c = 0; c < 3; ++c) {
    std::copy_n(given.before.as<float>().begin() + c * known * plane, known * plane,
                out.as<float>().begin() + c * sizes.num_frames * plane);
  }
  return out;
}

void check_animated(const AnimatedVideo& given, const PixelSizes& sizes) {
  const Shape& background = given.background.shape;
  const Shape& mask = given.mask.shape;
  const Shape& before = given.before.shape;
  const bool has_background = !given.background.bytes.empty();
  check(has_background == !given.mask.bytes.empty(),
        "[image] a background needs masks of the person in it, and masks a background");
  check(!has_background ||
            (background.dtype == DType::U8 && background.rank() == 4 && background.dims[3] == 3 &&
             background.dims[0] == sizes.num_frames && mask.dtype == DType::U8 &&
             mask.rank() == 3 && mask.dims[0] == sizes.num_frames),
        "[image] the background is {} and its masks {}, expected u8[f,h,w,3] and u8[f,h,w] of {} "
        "frames",
        to_string(background), to_string(mask), sizes.num_frames);
  check(given.before.bytes.empty() ||
            (before.dtype == DType::F32 && before.rank() == 4 && before.dims[0] == 3 &&
             before.dims[1] <= sizes.num_frames && before.dims[2] == sizes.height &&
             before.dims[3] == sizes.width),
        "[image] the frames before are {}, expected f32[3,k,{},{}]", to_string(before),
        sizes.height, sizes.width);
}

}  // namespace

HostArray animate_condition(const AnimatedVideo& given, const PixelSizes& sizes,
                            const Autoencoder& autoencoder) {
  check_animated(given, sizes);
  const LatentLayout layout = autoencoder.layout();
  const HostArray character =
      first_frame_latents(letterboxed(given.character, sizes.height, sizes.width), sizes.height,
                          sizes.width, autoencoder);
  const HostArray video = autoencoder.encode(known_pixels(given, sizes));
  const HostArray known = known_cells(given, sizes, layout.spatial);
  const Dims& d = video.shape.dims;  // [z, f, h, w]
  const int64_t plane = d[2] * d[3];
  const int64_t frames = d[1] + 1;
  HostArray out(Shape{DType::F32, {layout.temporal + d[0], frames, d[2], d[3]}});
  const auto at = [&](int64_t channel, int64_t frame) {
    return out.as<float>().begin() + (channel * frames + frame) * plane;
  };
  for (int64_t c = 0; c < layout.temporal; ++c) {
    std::fill_n(at(c, 0), plane, 1.0F);
    for (int64_t f = 0; f < d[1]; ++f) {
      // The first latent frame has one frame, the others one for each channel.
      const int64_t frame = f == 0 ? 0 : layout.temporal * (f - 1) + 1 + c;
      std::copy_n(known.as<float>().begin() + frame * plane, plane, at(c, f + 1));
    }
  }
  for (int64_t c = 0; c < d[0]; ++c) {
    std::copy_n(character.as<float>().begin() + c * plane, plane, at(layout.temporal + c, 0));
    std::copy_n(video.as<float>().begin() + c * d[1] * plane, d[1] * plane,
                at(layout.temporal + c, 1));
  }
  return out;
}

}  // namespace kinema::encoders
