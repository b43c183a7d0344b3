#include "kinema/encoders/image_processor.h"

#include <algorithm>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/media/image.h"

namespace kinema::encoders {
namespace {

using io::Json;

const Json* given(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void read(const Json& json, std::string_view key, bool& to) {
  if (const Json* value = given(json, key)) {
    to = value->as_bool();
  }
}

/// A side in pixels; the bound limits the memory that a corrupt file can request.
int64_t side(const Json& value) {
  const int64_t pixels = value.as_int();
  check(pixels >= 1 && pixels <= 16384, "[image] {} is {}, expected 1 to 16384", value.where(),
        pixels);
  return pixels;
}

void read(const Json& json, std::string_view key, std::array<float, 3>& to) {
  const Json* value = given(json, key);
  if (value == nullptr) {
    return;
  }
  check(value->items().size() == 3, "[image] {} has {} numbers, expected 3", value->where(),
        value->items().size());
  for (size_t i = 0; i < 3; ++i) {
    to[i] = static_cast<float>(value->items()[i].as_number());
  }
}

void read_size(const Json& json, ImageProcessor& to) {
  const Json* size = given(json, "size");
  if (size == nullptr) {
    return;
  }
  if (!size->is_object()) {
    to.shortest_edge = side(*size);
  } else if (size->contains("shortest_edge")) {
    to.shortest_edge = side(size->at("shortest_edge"));
  } else {
    to.height = side(size->at("height"));
    to.width = side(size->at("width"));
  }
}

void read_crop(const Json& json, ImageProcessor& to) {
  const Json* crop = given(json, "crop_size");
  if (crop == nullptr) {
    return;
  }
  to.crop_height = side(crop->is_object() ? crop->at("height") : *crop);
  to.crop_width = side(crop->is_object() ? crop->at("width") : *crop);
}

void read_filter(const Json& json, ImageProcessor& to) {
  const Json* value = given(json, "resample");
  if (value == nullptr) {
    return;
  }
  switch (value->as_int()) {  // PIL's constants
    case 1:
      to.resample = media::Filter::Lanczos;
      break;
    case 2:
      to.resample = media::Filter::Bilinear;
      break;
    case 3:
      to.resample = media::Filter::Bicubic;
      break;
    default:
      fail("[image] {} is {}, expected 1 (Lanczos), 2 (bilinear) or 3 (bicubic)", value->where(),
           value->as_int());
  }
}

void check_image(const HostArray& image) {
  const Shape& shape = image.shape;
  check(shape.dtype == DType::U8 && shape.rank() == 3 && shape.dims[2] == 3 && shape.elements() > 0,
        "[image] an image is {}, expected u8[h,w,3]", to_string(shape));
}

/// The center of an image; pixels outside the image are black.
HostArray center_crop(const HostArray& image, int64_t height, int64_t width) {
  const int64_t rows = image.shape.dims[0];
  const int64_t columns = image.shape.dims[1];
  // Halves are rounded down, also below zero.
  const int64_t top = (rows - height) >> 1;
  const int64_t left = (columns - width) >> 1;
  HostArray out(Shape{DType::U8, {height, width, 3}});
  const int64_t first = std::max<int64_t>(0, -left);
  const int64_t last = std::min(width, columns - left);
  for (int64_t y = std::max<int64_t>(0, -top); y < std::min(height, rows - top); ++y) {
    std::copy_n(image.bytes.begin() + ((y + top) * columns + first + left) * 3, (last - first) * 3,
                out.bytes.begin() + (y * width + first) * 3);
  }
  return out;
}

/// u8 [h, w, 3] to f32 [3, h, w] by a function of channel and byte.
HostArray to_planes(const HostArray& image, const auto& value) {
  const int64_t pixels = image.shape.dims[0] * image.shape.dims[1];
  HostArray out(Shape{DType::F32, {3, image.shape.dims[0], image.shape.dims[1]}});
  const auto from = image.as<uint8_t>();
  const auto to = out.as<float>();
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      to[c * pixels + i] = value(c, from[3 * i + c]);
    }
  }
  return out;
}

}  // namespace

HostArray ImageProcessor::operator()(const HostArray& image) const {
  check_image(image);
  HostArray x = image;
  if (do_resize) {
    int64_t to_height = height;
    int64_t to_width = width;
    if (to_height == 0 || to_width == 0) {
      const int64_t rows = x.shape.dims[0];
      const int64_t columns = x.shape.dims[1];
      const int64_t shorter = std::min(rows, columns);
      to_height = rows * shortest_edge / shorter;
      to_width = columns * shortest_edge / shorter;
    }
    x = media::resize_image(x, to_height, to_width, resample, rounding);
  }
  if (do_center_crop) {
    x = center_crop(x, crop_height, crop_width);
  }
  return to_planes(x, [&](int64_t c, uint8_t byte) {
    const double scaled = do_rescale ? byte * rescale_factor : byte;
    const auto single = static_cast<float>(scaled);
    return do_normalize ? (single - mean[c]) / std[c] : single;
  });
}

ImageProcessor read_image_processor(const std::filesystem::path& folder) {
  const Json json = Json::read(folder / "preprocessor_config.json");
  ImageProcessor out;
  read(json, "do_resize", out.do_resize);
  read(json, "do_center_crop", out.do_center_crop);
  read(json, "do_rescale", out.do_rescale);
  read(json, "do_normalize", out.do_normalize);
  read_size(json, out);
  read_crop(json, out);
  read_filter(json, out);
  if (const Json* factor = given(json, "rescale_factor")) {
    out.rescale_factor = factor->as_number();
  }
  read(json, "image_mean", out.mean);
  read(json, "image_std", out.std);
  // Beyond any trained model; pixels stay finite within these bounds.
  constexpr double kMost = 1e6;
  const auto check_all = [&](std::string_view key, double least, const auto& values) {
    for (const double value : values) {
      check(value >= least && value <= kMost, "[image] {}: `{}` is {:g}, expected {:g} to {:g}",
            (folder / "preprocessor_config.json").string(), key, value, least, kMost);
    }
  };
  check_all("image_mean", -kMost, out.mean);
  check_all("image_std", 1 / kMost, out.std);
  check_all("rescale_factor", -kMost, std::array{out.rescale_factor});
  return out;
}

HostArray autoencoder_pixels(const HostArray& image, int64_t height, int64_t width) {
  check_image(image);
  return to_planes(
      media::resize_image(image, height, width, media::Filter::Lanczos),
      [](int64_t, uint8_t byte) { return 2.0F * (static_cast<float>(byte) / 255.0F) - 1.0F; });
}

HostArray video_pixels(const HostArray& frames, int64_t height, int64_t width) {
  const Dims& given = frames.shape.dims;
  check(frames.shape.dtype == DType::U8 && given.size() == 4 && given[3] == 3,
        "[image] a video is {}, expected u8[f,h,w,3]", to_string(frames.shape));
  HostArray out(Shape{DType::F32, {3, given[0], height, width}});
  const int64_t plane = height * width;
  HostArray frame(Shape{DType::U8, {given[1], given[2], 3}});
  for (int64_t i = 0; i < given[0]; ++i) {
    std::copy_n(frames.bytes.begin() + i * std::ssize(frame.bytes), frame.bytes.size(),
                frame.bytes.begin());
    const HostArray one = autoencoder_pixels(frame, height, width);
    for (int64_t c = 0; c < 3; ++c) {
      std::copy_n(one.as<float>().begin() + c * plane, plane,
                  out.as<float>().begin() + (c * given[0] + i) * plane);
    }
  }
  return out;
}

}  // namespace kinema::encoders
