#include "kinema/encoders/wan_autoencoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/encoders/vae_side.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/vae_config.h"
#include "kinema/weights/folder.h"

namespace kinema::encoders {
namespace {

// The reference clamps here too.
constexpr float kSmallestLogvar = -30.0F;
constexpr float kLargestLogvar = 20.0F;

/// x a + b with one a and b per channel of [c, ...].
HostArray affine(HostArray x, const std::vector<double>& a, const std::vector<double>& b) {
  const auto values = x.as<float>();
  const size_t plane = values.size() / a.size();
  for (size_t c = 0; c < a.size(); ++c) {
    for (size_t i = c * plane; i < (c + 1) * plane; ++i) {
      values[i] = static_cast<float>(static_cast<double>(values[i]) * a[c] + b[c]);
    }
  }
  return x;
}

/// Channels [from, from + count) of [c, ...].
HostArray channels(const HostArray& x, int64_t from, int64_t count) {
  Shape shape = x.shape;
  const int64_t plane = shape.bytes() / shape.dims[0];
  shape.dims[0] = count;
  HostArray out(shape);
  std::copy_n(x.bytes.begin() + from * plane, count * plane, out.bytes.begin());
  return out;
}

/// Concatenates pieces [c, k, h, w] into an array of known length.
class Joined {
 public:
  explicit Joined(const Dims& dims) : whole_(Shape{DType::F32, dims}) {}

  void add(const HostArray& piece) {
    put_frames(whole_, piece, at_);
    at_ += piece.shape.dims[1];
  }
  HostArray take() { return std::move(whole_); }

 private:
  HostArray whole_;
  int64_t at_ = 0;
};

}  // namespace

class WanAutoencoder::Network {
 public:
  Network(runtime::Devices devices, const std::filesystem::path& folder,
          const WanAutoencoderOptions& options)
      : options_(options),
        files_(model_files::Checkpoint::open(folder, model_files::kVae)),
        devices_(std::move(devices)),
        config_(checked_config(files_)),
        encoder_(side(VaeSide::Kind::ENCODER)),
        decoder_(side(VaeSide::Kind::DECODER)) {
    const int64_t t = config_.temporal();
    check(options.encode_chunk == -1 || (options.encode_chunk > 0 && options.encode_chunk % t == 0),
          "[encoders] vae_encode_chunk is {}, expected a multiple of {} frames, or -1 for all",
          options.encode_chunk, t);
    check(options.decode_chunk == -1 || options.decode_chunk > 0,
          "[encoders] vae_decode_chunk is {}, expected 1 or more latent frames, or -1 for all",
          options.decode_chunk);
    if (options_.tiling) {
      check_tiling(*options_.tiling, config_.spatial());
    }
  }

  const vae::Config& config() const { return config_; }

  /// f32 [3, F, H, W] -> [2 z, f, h, w].
  HostArray encode(const HostArray& pixels) {
    const Dims& d = pixels.shape.dims;
    check(pixels.shape.dtype == DType::F32 && d.size() == 4 && d[0] == config_.colours(),
          "[encoders] the video is {} but must be f32[{},f,h,w]", to_string(pixels.shape),
          config_.colours());
    check_multiple("the video's height", d[2], config_.spatial());
    check_multiple("the video's width", d[3], config_.spatial());
    const int64_t t = config_.temporal();
    const int64_t below = std::max<int64_t>(d[1] - 1, 0) / t * t + 1;
    check(d[1] > 0 && (d[1] - 1) % t == 0,
          "[encoders] the video has {} frames, expected {} k + 1\n  {} and {} work", d[1], t, below,
          below + t);
    if (options_.tiling && (d[2] > options_.tiling->height || d[3] > options_.tiling->width)) {
      return encode_tiles(pixels, *options_.tiling);
    }
    return encode_whole(pixels);
  }

  void decode(const HostArray& latents, const FrameSink& sink) {
    const Dims& d = latents.shape.dims;
    check(latents.shape.dtype == DType::F32 && d.size() == 4 && d[0] == config_.z_dim && d[1] > 0 &&
              d[2] > 0 && d[3] > 0,
          "[encoders] the latents are {} but this VAE has {} channels: f32[{},f,h,w]",
          to_string(latents.shape), config_.z_dim, config_.z_dim);
    const int64_t side = config_.spatial();
    if (options_.tiling &&
        (d[2] > options_.tiling->height / side || d[3] > options_.tiling->width / side)) {
      deliver(decode_tiles(latents, *options_.tiling), sink);
      return;
    }
    decoder_->run(latents, options_.decode_chunk, [&](HostArray piece) {
      clamp(piece, -1.0F, 1.0F);
      sink(piece);
    });
  }

  int64_t decode_memory_bytes(Dims d) {
    const int64_t side = config_.spatial();
    // Of a tiled video, which is in memory completely, plus a row of blended tiles.
    int64_t frames = 0;
    if (options_.tiling &&
        (d[2] > options_.tiling->height / side || d[3] > options_.tiling->width / side)) {
      const Dims video{config_.colours(), (d[1] - 1) * config_.temporal() + 1, d[2] * side,
                       d[3] * side};
      frames = 2 * Shape{DType::F32, video}.bytes();
      d[2] = std::min(d[2], options_.tiling->height / side);
      d[3] = std::min(d[3], options_.tiling->width / side);
    }
    return frames + decoder_->memory_bytes(d, options_.decode_chunk);
  }

  void release() {
    encoder_->release();
    decoder_->release();
  }

 private:
  static vae::Config checked_config(const model_files::Checkpoint& files) {
    const vae::Config config = model_files::vae_config(files);
    weights::check_tensors(files, vae::parameters(config, {}));
    return config;
  }

  std::unique_ptr<VaeSide> side(VaeSide::Kind kind) {
    return std::make_unique<VaeSide>(
        kind, devices_, config_, options_.model, options_.program,
        [this](std::span<const nn::ParamSpec> specs) {
          return weights::load_arrays(files_, specs, devices_);
        },
        options_.replicate);
  }

  HostArray encode_whole(const HostArray& pixels) {
    const Dims& d = pixels.shape.dims;
    Joined out({2 * config_.z_dim, (d[1] - 1) / config_.temporal() + 1, d[2] / config_.spatial(),
                d[3] / config_.spatial()});
    encoder_->run(pixels, options_.encode_chunk, [&](const HostArray& piece) { out.add(piece); });
    return out.take();
  }

  HostArray decode_whole(const HostArray& latents) {
    const Dims& d = latents.shape.dims;
    Joined out({config_.colours(), (d[1] - 1) * config_.temporal() + 1, d[2] * config_.spatial(),
                d[3] * config_.spatial()});
    decoder_->run(latents, options_.decode_chunk, [&](const HostArray& piece) { out.add(piece); });
    return out.take();
  }

  HostArray encode_tiles(const HostArray& pixels, const Tiling& t) {
    const Dims& d = pixels.shape.dims;
    // The tiles are measured in patches; this many make a latent cell.
    const int64_t patch = config_.patch();
    const int64_t cell = config_.spatial() / patch;
    const auto axis = [&](int64_t size, int64_t tile, int64_t stride) {
      return TileAxis{size / config_.spatial(), stride / cell, (tile - stride) / cell};
    };
    TileBlender blender(2 * config_.z_dim, (d[1] - 1) / config_.temporal() + 1,
                        axis(d[2], t.height, t.stride_height), axis(d[3], t.width, t.stride_width));
    const std::vector<Tile> rows = tiles(d[2], t.height * patch, t.stride_height * patch);
    const std::vector<Tile> columns = tiles(d[3], t.width * patch, t.stride_width * patch);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        blender.add(static_cast<int64_t>(i), static_cast<int64_t>(j),
                    encode_whole(cut(pixels, rows[i], columns[j])));
      }
    }
    return blender.take();
  }

  HostArray decode_tiles(const HostArray& latents, const Tiling& t) {
    const Dims& d = latents.shape.dims;
    const int64_t side = config_.spatial();
    const auto axis = [&](int64_t cells, int64_t tile, int64_t stride) {
      return TileAxis{cells * side, stride, tile - stride, config_.patch()};
    };
    TileBlender blender(config_.colours(), (d[1] - 1) * config_.temporal() + 1,
                        axis(d[2], t.height, t.stride_height), axis(d[3], t.width, t.stride_width));
    const std::vector<Tile> rows = tiles(d[2], t.height / side, t.stride_height / side);
    const std::vector<Tile> columns = tiles(d[3], t.width / side, t.stride_width / side);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        blender.add(static_cast<int64_t>(i), static_cast<int64_t>(j),
                    decode_whole(cut(latents, rows[i], columns[j])));
      }
    }
    return blender.take();
  }

  /// Passes a complete video on in pieces.
  void deliver(const HostArray& video, const FrameSink& sink) {
    const int64_t frames = video.shape.dims[1];
    int64_t size = 1;
    for (int64_t at = 0; at < frames; at += size) {
      size = at == 0 ? 1 : std::min(config_.temporal(), frames - at);
      HostArray piece = cut_frames(video, at, size);
      clamp(piece, -1.0F, 1.0F);
      sink(piece);
    }
  }

  WanAutoencoderOptions options_;
  model_files::Checkpoint files_;  // mapped, not read
  runtime::Devices devices_;
  vae::Config config_;
  std::unique_ptr<VaeSide> encoder_;
  std::unique_ptr<VaeSide> decoder_;
};

WanAutoencoder::WanAutoencoder(const runtime::Devices& devices, const std::filesystem::path& folder,
                               const WanAutoencoderOptions& options)
    : network_(std::make_unique<Network>(devices, folder, options)) {}

WanAutoencoder::~WanAutoencoder() = default;

const vae::Config& WanAutoencoder::config() const { return network_->config(); }

LatentLayout WanAutoencoder::layout() const {
  return {.channels = config().z_dim,
          .spatial = config().spatial(),
          .temporal = config().temporal(),
          .first_frame_alone = true};
}

WanAutoencoder::Moments WanAutoencoder::moments(const HostArray& pixels) const {
  const HostArray both = network_->encode(pixels);
  const int64_t z = config().z_dim;
  Moments out{channels(both, 0, z), channels(both, z, z)};
  clamp(out.logvar, kSmallestLogvar, kLargestLogvar);
  return out;
}

HostArray WanAutoencoder::encode(const HostArray& pixels) const {
  return normalise(channels(network_->encode(pixels), 0, config().z_dim));
}

void WanAutoencoder::decode(const HostArray& latents, const FrameSink& sink) const {
  check(latents.shape.rank() == 4 && latents.shape.dims[0] == config().z_dim,
        "[encoders] the latents are {} but this VAE has {} channels", to_string(latents.shape),
        config().z_dim);
  decode_denormalised(denormalise(latents), sink);
}

int64_t WanAutoencoder::decode_memory_bytes(const Dims& latents) const {
  return network_->decode_memory_bytes(latents);
}

void WanAutoencoder::release() const { network_->release(); }

HostArray WanAutoencoder::normalise(const HostArray& latents) const {
  std::vector<double> scale;
  std::vector<double> shift;
  for (size_t c = 0; c < config().latents_std.size(); ++c) {
    scale.push_back(1.0 / config().latents_std[c]);
    shift.push_back(-config().latents_mean[c] / config().latents_std[c]);
  }
  return affine(latents, scale, shift);
}

HostArray WanAutoencoder::denormalise(const HostArray& latents) const {
  return affine(latents, config().latents_std, config().latents_mean);
}

void WanAutoencoder::decode_denormalised(const HostArray& latents, const FrameSink& sink) const {
  network_->decode(latents, sink);
}

}  // namespace kinema::encoders
