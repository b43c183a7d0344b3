#include "kinema/encoders/fun_condition.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"

namespace kinema::encoders {
namespace {

/// The dims of latents of `channels`, [channels, f, h, w].
Dims latent_dims(int64_t channels, const PixelSizes& sizes, const LatentLayout& layout) {
  const int64_t more = layout.first_frame_alone ? 1 : 0;
  return {channels, (sizes.num_frames - more) / layout.temporal + more,
          sizes.height / layout.spatial, sizes.width / layout.spatial};
}

}  // namespace

HostArray video_latents(const HostArray& video, const PixelSizes& sizes,
                        const Autoencoder& autoencoder) {
  const Dims& given = video.shape.dims;
  check(video.shape.dtype == DType::U8 && given.size() == 4 && given[3] == 3 &&
            given[0] >= sizes.num_frames,
        "[image] the control video is {}, expected u8[f,h,w,3] of {} frames or more",
        to_string(video.shape), sizes.num_frames);
  HostArray first(Shape{DType::U8, {sizes.num_frames, given[1], given[2], 3}});
  std::copy_n(video.bytes.begin(), first.bytes.size(), first.bytes.begin());
  return autoencoder.encode(video_pixels(first, sizes.height, sizes.width));
}

HostArray frame_latents(const HostArray& image, const PixelSizes& sizes,
                        const Autoencoder& autoencoder) {
  if (!image.bytes.empty()) {
    return first_frame_latents(image, sizes.height, sizes.width, autoencoder);
  }
  Dims dims = latent_dims(autoencoder.layout().channels, sizes, autoencoder.layout());
  dims[1] = 1;
  return HostArray(Shape{DType::F32, dims});
}

HostArray start_latents(const HostArray& image, const PixelSizes& sizes,
                        const Autoencoder& autoencoder) {
  const Dims dims = latent_dims(autoencoder.layout().channels, sizes, autoencoder.layout());
  HostArray out(Shape{DType::F32, dims});
  if (image.bytes.empty()) {
    return out;
  }
  const HostArray first = frame_latents(image, sizes, autoencoder);
  const int64_t plane = dims[2] * dims[3];
  for (int64_t c = 0; c < dims[0]; ++c) {
    std::ranges::copy(
        first.as<float>().subspan(static_cast<size_t>(c * plane), static_cast<size_t>(plane)),
        out.as<float>().begin() + c * dims[1] * plane);
  }
  return out;
}

HostArray optional_condition(const ConditioningImages& images, const PixelSizes& sizes,
                             const Autoencoder& autoencoder) {
  const LatentLayout layout = autoencoder.layout();
  return images.first.bytes.empty()
             ? HostArray(
                   Shape{DType::F32, latent_dims(layout.channels + layout.temporal, sizes, layout)})
             : image_condition(images, sizes, autoencoder);
}

}  // namespace kinema::encoders
