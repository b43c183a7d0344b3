#include "sample/codec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace kinema::sample {
namespace {

class SpaceToDepthAutoencoder final : public Autoencoder {
 public:
  explicit SpaceToDepthAutoencoder(const data::SpaceToDepth& settings) : settings_(settings) {}

  std::string name() const override { return "space_to_depth"; }
  LatentLayout layout() const override {
    return {.channels = settings_.channels(),
            .spatial = settings_.side(),
            .temporal = settings_.frames(),
            .first_frame_alone = false};
  }
  HostArray decode(const HostArray& latents) const override { return settings_.decode(latents); }

 private:
  data::SpaceToDepth settings_;
};

class HashedTextEncoder final : public TextEncoder {
 public:
  explicit HashedTextEncoder(const text::HashedEncoder& settings) : settings_(settings) {}

  std::string name() const override { return "hashed"; }
  HostArray encode(const std::string& prompt) const override { return settings_.encode(prompt); }

 private:
  text::HashedEncoder settings_;
};

}  // namespace

std::unique_ptr<Autoencoder> space_to_depth_autoencoder(const data::SpaceToDepth& settings) {
  return std::make_unique<SpaceToDepthAutoencoder>(settings);
}

std::unique_ptr<TextEncoder> hashed_text_encoder(const text::HashedEncoder& settings) {
  return std::make_unique<HashedTextEncoder>(settings);
}

HostArray to_frames(const HostArray& pixels) {
  const Dims& dims = pixels.shape.dims;
  check(pixels.shape.dtype == DType::F32 && dims.size() == 4 && dims[0] == 3,
        "[sample] decoded pixels are {}, expected f32[3,f,h,w]", to_string(pixels.shape));
  HostArray frames(Shape{DType::U8, {dims[1], dims[2], dims[3], 3}});
  const auto from = pixels.as<float>();
  const auto to = frames.as<uint8_t>();
  const size_t plane = from.size() / 3;
  for (size_t i = 0; i < plane; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const float unit = std::clamp(from[c * plane + i] * 0.5F + 0.5F, 0.0F, 1.0F);
      to[3 * i + c] = static_cast<uint8_t>(std::lround(unit * 255.0F));
    }
  }
  return frames;
}

}  // namespace kinema::sample
