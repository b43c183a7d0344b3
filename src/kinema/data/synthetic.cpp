#include "kinema/data/synthetic.h"

#include <fmt/format.h>

#include <limits>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/data/picture_sizes.h"

namespace kinema::data {
namespace {

HostArray normal_array(Dims dims, DType dtype, std::array<uint32_t, 2> key) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  RandomStream random(key);
  for (float& x : out.as<float>()) {
    x = random.normal();
  }
  return dtype == DType::F32 ? out : convert(out, dtype);
}

class SyntheticSource : public Source {
 public:
  explicit SyntheticSource(const SyntheticOptions& options) : options_(options) {
    const auto& o = options_;
    check(o.height > 0 && o.width > 0 && o.num_frames > 0 && o.max_sequence_length > 0 &&
              o.text_embed_dim > 0 && o.num_channels_latents > 0 &&
              o.vae_scale_factor_spatial > 0 && o.vae_scale_factor_temporal > 0 &&
              o.num_samples >= 0 && o.condition_channels >= 0 && o.image_tokens >= 0 &&
              o.image_dim >= 0 && o.pooled_dim >= 0,
          "[synthetic] sizes must be positive: height {}, width {}, num_frames {}, "
          "max_sequence_length {}, text_embed_dim {}, channels {}",
          o.height, o.width, o.num_frames, o.max_sequence_length, o.text_embed_dim,
          o.num_channels_latents);
    check(o.height % o.vae_scale_factor_spatial == 0 && o.width % o.vae_scale_factor_spatial == 0,
          "[synthetic] height {} and width {} must be multiples of {}", o.height, o.width,
          o.vae_scale_factor_spatial);
    check((o.num_frames - alone()) % o.vae_scale_factor_temporal == 0,
          "[synthetic] num_frames is {} but must be {}a multiple of {}", o.num_frames,
          alone() > 0 ? "1 more than " : "", o.vae_scale_factor_temporal);
  }

  int64_t size() const override {
    return options_.num_samples > 0 ? options_.num_samples : std::numeric_limits<int64_t>::max();
  }

  Sample at(int64_t position) const override {
    const auto& o = options_;
    const auto n = static_cast<uint64_t>(position % size());
    Sample sample;
    Dims latents{o.num_channels_latents,
                 (o.num_frames - alone()) / o.vae_scale_factor_temporal + alone(),
                 o.height / o.vae_scale_factor_spatial, o.width / o.vae_scale_factor_spatial};
    sample.latents = normal_array(latents, o.dtype, random_key(o.seed, "synthetic latents", n));
    if (o.condition_channels > 0) {
      latents[0] = o.condition_channels;
      latents[2] *= o.condition_cell;
      latents[3] *= o.condition_cell;
      sample.condition =
          normal_array(latents, o.dtype, random_key(o.seed, "synthetic condition", n));
    }
    if (o.image_tokens > 0) {
      sample.image_states = normal_array({o.image_tokens, o.image_dim}, o.dtype,
                                         random_key(o.seed, "synthetic image", n));
    }
    sample.encoder_hidden_states = normal_array({o.max_sequence_length, o.text_embed_dim}, o.dtype,
                                                random_key(o.seed, "synthetic text", n));
    if (o.pooled_dim > 0) {
      sample.pooled =
          normal_array({o.pooled_dim}, o.dtype, random_key(o.seed, "synthetic pooled", n));
    }
    if (o.sizes) {
      sample.size_ids = size_ids(PictureSizes{}, o.height, o.width);
    }
    sample.id = fmt::format("synthetic {}", n);
    return sample;
  }

 private:
  /// Frames with a separate latent frame.
  int64_t alone() const { return options_.first_frame_alone ? 1 : 0; }

  SyntheticOptions options_;
};

}  // namespace

std::unique_ptr<Source> synthetic_source(const SyntheticOptions& options) {
  return std::make_unique<SyntheticSource>(options);
}

}  // namespace kinema::data
