#include "kinema/encoders/autoencoder.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::encoders {
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
  HostArray encode(const HostArray& pixels) const override { return settings_.encode(pixels); }
  void decode(const HostArray& latents, const FrameSink& sink) const override {
    sink(settings_.decode(latents));
  }

 private:
  data::SpaceToDepth settings_;
};

/// Concatenates pieces [3, k, h, w] along the frames.
HostArray join_frames(const std::vector<HostArray>& pieces) {
  Dims dims = pieces.front().shape.dims;
  dims[1] = 0;
  for (const HostArray& piece : pieces) {
    dims[1] += piece.shape.dims[1];
  }
  HostArray out(Shape{DType::F32, dims});
  const int64_t plane = out.shape.bytes() / dims[0];
  int64_t at = 0;
  for (const HostArray& piece : pieces) {
    const int64_t size = piece.shape.bytes() / dims[0];
    for (int64_t c = 0; c < dims[0]; ++c) {
      std::copy_n(piece.bytes.begin() + c * size, size, out.bytes.begin() + c * plane + at);
    }
    at += size;
  }
  return out;
}

}  // namespace

HostArray Autoencoder::encode_sample(const HostArray& pixels, const HostArray& /*noise*/) const {
  return encode(pixels);
}

HostArray Autoencoder::decode(const HostArray& latents) const {
  std::vector<HostArray> pieces;
  decode(latents, [&](const HostArray& piece) { pieces.push_back(piece); });
  check(!pieces.empty(), "[encoders] {} decoded no frame from {}", name(),
        to_string(latents.shape));
  return pieces.size() == 1 ? std::move(pieces.front()) : join_frames(pieces);
}

std::unique_ptr<Autoencoder> space_to_depth_autoencoder(const data::SpaceToDepth& settings) {
  return std::make_unique<SpaceToDepthAutoencoder>(settings);
}

void clamp(HostArray& x, float low, float high) {
  for (float& value : x.as<float>()) {
    value = value < low ? low : (value > high ? high : value);
  }
}

HostArray to_frames(const HostArray& pixels) {
  const Dims& dims = pixels.shape.dims;
  check(pixels.shape.dtype == DType::F32 && dims.size() == 4 && dims[0] == 3,
        "[encoders] decoded pixels are {}, expected f32[3,f,h,w]", to_string(pixels.shape));
  HostArray frames(Shape{DType::U8, {dims[1], dims[2], dims[3], 3}});
  const auto from = pixels.as<float>();
  const auto to = frames.as<uint8_t>();
  const size_t plane = from.size() / 3;
  check(
      std::ranges::none_of(from, [](float x) { return std::isnan(x); }),
      "[encoders] the VAE's output is not finite: its weights are not, or its dtype has too small "
      "a range\n  try vae_dtype=float32 and vae_weights_dtype=float32");
  for (size_t i = 0; i < plane; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const float unit = std::clamp(from[c * plane + i] * 0.5F + 0.5F, 0.0F, 1.0F);
      to[3 * i + c] = static_cast<uint8_t>(std::lround(unit * 255.0F));
    }
  }
  return frames;
}

}  // namespace kinema::encoders
