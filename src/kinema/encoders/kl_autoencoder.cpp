#include "kinema/encoders/kl_autoencoder.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/encoders/tiling.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/vae_config.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/kl_config.h"

namespace kinema::encoders {

namespace kl = kl_autoencoder;

namespace {

kl::AutoencoderConfig checked_config(const model_files::Checkpoint& files,
                                     std::optional<double> latent_scale) {
  const kl::AutoencoderConfig config = weights::kl_config(files, latent_scale);
  weights::check_kl_tensors(files, config);
  return config;
}

}  // namespace

/// The encoder or the decoder with its devices.
class KlAutoencoder::Side {
 public:
  Side(bool encodes, const runtime::Devices& devices, const model_files::Checkpoint& files,
       const kl::AutoencoderConfig& config, const KlAutoencoderOptions& options)
      : encodes_(encodes),
        devices_(devices),
        files_(files),
        config_(config),
        options_(options),
        specs_(encodes ? kl::encoder_parameters(config, options.model)
                       : kl::decoder_parameters(config, options.model)) {
    for (nn::ParamSpec& spec : specs_) {
      spec.axes.assign(spec.axes.size(), "");  // replicated on every device
    }
    runtime::split_over(devices_, options_.program);
  }

  /// One frame, f32 [c, 1, h, w] -> f32 [c', 1, h', w'].
  HostArray run(HostArray frame) {
    Params params;
    const runtime::Program* program = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      if (!params_) {
        params_ = std::make_shared<const std::vector<runtime::Array>>(
            weights::load_arrays(files_, specs_, devices_));
      }
      params = params_;
      program = &compiled(frame.shape.dims);
    }
    const Dims dims = frame.shape.dims;
    frame.shape.dims = {1, dims[0], dims[2], dims[3]};
    const runtime::Array input = devices_.upload(frame);
    std::vector<const runtime::Array*> arguments;
    for (const runtime::Array& param : *params) {
      arguments.push_back(&param);
    }
    arguments.push_back(&input);
    HostArray out = program->run(devices_, arguments)[0].to_host();
    const Dims& made = out.shape.dims;
    out.shape.dims = {made[1], 1, made[2], made[3]};
    return out;
  }

  /// In addition to loaded parameters; compiles the program.
  int64_t memory_bytes(const Dims& frame) {
    const std::scoped_lock lock(mutex_);
    int64_t parameters = 0;
    for (const nn::ParamSpec& spec : specs_) {
      parameters += spec.shape.bytes();
    }
    return compiled(frame).report().memory.total() - (params_ ? parameters : 0);
  }

  void release() {
    const std::scoped_lock lock(mutex_);
    params_.reset();
    runtime::release_free_memory();
  }

 private:
  using Params = std::shared_ptr<const std::vector<runtime::Array>>;

  const runtime::Program& compiled(const Dims& frame) {
    const Dims size{frame[2], frame[3]};
    const auto known = programs_.find(size);
    if (known != programs_.end()) {
      return known->second;
    }
    Graph graph;
    std::vector<Tensor> params;
    for (const nn::ParamSpec& spec : specs_) {
      params.push_back(spec.input(graph, devices_.placement()));
    }
    const Shape shape{DType::F32, {1, frame[0], frame[2], frame[3]}};
    const Tensor x =
        graph.input(shape, encodes_ ? "image" : "latents", devices_.placement().whole(shape.dims));
    Tensor out;
    if (encodes_) {
      const kl::Moments moments = kl::encode(params, config_, options_.model, x);
      out = concatenate({kl::scaled(moments.mean, config_), kl::scaled_deviation(moments, config_)},
                        Axis(1));
    } else {
      out = kl::decode(params, config_, options_.model, kl::unscaled(x, config_));
    }
    runtime::ProgramOptions options = options_.program;
    options.name = encodes_ ? "vae_encode" : "vae_decode";
    options.emit.output_shardings = {devices_.placement().whole(out.shape().dims)};
    const std::vector<Tensor> outputs{out};
    return programs_
        .emplace(size, runtime::Program::compile(devices_.client(), graph, outputs, options))
        .first->second;
  }

  bool encodes_;
  runtime::Devices devices_;
  const model_files::Checkpoint& files_;
  const kl::AutoencoderConfig& config_;
  KlAutoencoderOptions options_;
  std::vector<nn::ParamSpec> specs_;

  std::mutex mutex_;  // guards the members below
  Params params_;     // null when released; a run shares ownership
  std::map<Dims, runtime::Program> programs_;
};

struct KlAutoencoder::Model {
  Model(const runtime::Devices& devices, const std::filesystem::path& folder,
        const KlAutoencoderOptions& options)
      : files(model_files::Checkpoint::open(folder, model_files::kVae)),
        config(checked_config(files, options.latent_scale)),
        tiling(options.tiling),
        encoder(true, devices, files, config, options),
        decoder(false, devices, files, config, options) {
    if (tiling) {
      check_tiling(*tiling, config.spatial());
    }
  }

  /// True if an image of this many latent cells needs tiles.
  bool is_cut(int64_t rows, int64_t columns) const {
    const int64_t cell = config.spatial();
    return tiling && (rows > tiling->height / cell || columns > tiling->width / cell);
  }

  /// One frame by tiles, with `in` units per cell on the input and `out` on the result.
  HostArray by_tiles(Side& side, const HostArray& frame, int64_t channels, int64_t in,
                     int64_t out) const {
    const int64_t cell = config.spatial();
    const auto axis = [&](int64_t size, int64_t tile, int64_t stride) {
      return TileAxis{size / in * out, stride / cell * out, (tile - stride) / cell * out};
    };
    const auto starts = [&](int64_t size, int64_t tile, int64_t stride) {
      return tiles(size, tile / cell * in, stride / cell * in);
    };
    const Dims& d = frame.shape.dims;
    TileBlender blender(channels, 1, axis(d[2], tiling->height, tiling->stride_height),
                        axis(d[3], tiling->width, tiling->stride_width));
    const std::vector<Tile> rows = starts(d[2], tiling->height, tiling->stride_height);
    const std::vector<Tile> columns = starts(d[3], tiling->width, tiling->stride_width);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        blender.add(static_cast<int64_t>(i), static_cast<int64_t>(j),
                    side.run(cut(frame, rows[i], columns[j])));
      }
    }
    return blender.take();
  }

  model_files::Checkpoint files;  // mapped, not read
  kl::AutoencoderConfig config;
  std::optional<Tiling> tiling;
  Side encoder;
  Side decoder;
};

bool is_kl_autoencoder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(folder, ignored)) {
    return !model_files::is_vae_file(folder);
  }
  const io::Json config = io::Json::read(folder / "config.json");
  const io::Json* name = config.is_object() ? config.find("_class_name") : nullptr;
  return name != nullptr && name->is_string() && name->as_string() == kl::kClassName;
}

int64_t kl_cell_side(const std::filesystem::path& folder) {
  return kl::parse_config(io::Json::read(folder / "config.json")).spatial();
}

KlAutoencoder::KlAutoencoder(const runtime::Devices& devices, const std::filesystem::path& folder,
                             const KlAutoencoderOptions& options)
    : model_(std::make_unique<Model>(devices, folder, options)) {}

KlAutoencoder::~KlAutoencoder() = default;

const kl::AutoencoderConfig& KlAutoencoder::config() const { return model_->config; }

LatentLayout KlAutoencoder::layout() const {
  return {.channels = config().latent_channels,
          .spatial = config().spatial(),
          .temporal = 1,
          .first_frame_alone = false};
}

/// Mean and deviation of the scaled latents, f32 [2 z, f, h, w].
HostArray KlAutoencoder::moments(const HostArray& pixels) const {
  const Dims& d = pixels.shape.dims;
  const int64_t cell = config().spatial();
  check(pixels.shape.dtype == DType::F32 && d.size() == 4 && d[0] == 3,
        "[encoders] the image is {} but must be f32[3,f,h,w]", to_string(pixels.shape));
  check(d[1] > 0 && d[2] > 0 && d[3] > 0 && d[2] % cell == 0 && d[3] % cell == 0,
        "[encoders] the image is {} x {} pixels (height x width), expected multiples of {} (the "
        "VAE's cells)",
        d[2], d[3], cell);
  const int64_t channels = 2 * config().latent_channels;
  HostArray out(Shape{DType::F32, {channels, d[1], d[2] / cell, d[3] / cell}});
  const bool is_cut = model_->is_cut(d[2] / cell, d[3] / cell);
  for (int64_t i = 0; i < d[1]; ++i) {
    const HostArray frame = cut_frames(pixels, i, 1);
    put_frames(out,
               is_cut ? model_->by_tiles(model_->encoder, frame, channels, cell, 1)
                      : model_->encoder.run(frame),
               i);
  }
  return out;
}

HostArray KlAutoencoder::encode(const HostArray& pixels) const {
  HostArray out = moments(pixels);
  out.shape.dims[0] /= 2;
  out.bytes.resize(out.bytes.size() / 2);
  return out;
}

HostArray KlAutoencoder::encode_sample(const HostArray& pixels, const HostArray& noise) const {
  HostArray out = moments(pixels);
  Shape latents = out.shape;
  latents.dims[0] /= 2;
  check(noise.shape == latents, "[encoders] the noise is {} but the latents are {}",
        to_string(noise.shape), to_string(latents));
  const auto values = out.as<float>();
  const auto drawn = noise.as<float>();
  for (size_t i = 0; i < drawn.size(); ++i) {
    values[i] += values[drawn.size() + i] * drawn[i];
  }
  out.shape = latents;
  out.bytes.resize(noise.bytes.size());
  return out;
}

void KlAutoencoder::decode(const HostArray& latents, const FrameSink& sink) const {
  const Dims& d = latents.shape.dims;
  check(latents.shape.dtype == DType::F32 && d.size() == 4 && d[0] == config().latent_channels &&
            d[1] > 0 && d[2] > 0 && d[3] > 0,
        "[encoders] the latents are {} but this VAE has {} channels: f32[{},f,h,w]",
        to_string(latents.shape), config().latent_channels, config().latent_channels);
  const bool is_cut = model_->is_cut(d[2], d[3]);
  for (int64_t i = 0; i < d[1]; ++i) {
    const HostArray frame = cut_frames(latents, i, 1);
    // Clamped after blending, not before: the weighted sum may be inside the range although a tile
    // is not.
    HostArray image = is_cut ? model_->by_tiles(model_->decoder, frame, 3, 1, config().spatial())
                             : model_->decoder.run(frame);
    clamp(image, -1.0F, 1.0F);
    sink(image);
  }
}

int64_t KlAutoencoder::decode_memory_bytes(const Dims& latents) const {
  const int64_t cell = config().spatial();
  Dims frame{latents[0], 1, latents[2], latents[3]};
  if (!model_->is_cut(frame[2], frame[3])) {
    return model_->decoder.memory_bytes(frame);
  }
  // The whole image is in memory in addition to the tiles.
  const int64_t image = Shape{DType::F32, {3, 1, frame[2] * cell, frame[3] * cell}}.bytes();
  frame[2] = std::min(frame[2], model_->tiling->height / cell);
  frame[3] = std::min(frame[3], model_->tiling->width / cell);
  return 2 * image + model_->decoder.memory_bytes(frame);
}

void KlAutoencoder::release() const {
  model_->encoder.release();
  model_->decoder.release();
}

}  // namespace kinema::encoders
