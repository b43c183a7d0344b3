#include "kinema/weights/kl_config.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/model_files/family.h"
#include "kinema/model_files/single_file.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/weights/folder.h"

namespace kinema::weights {

namespace kl = kl_autoencoder;

namespace {

/// Flux's, whose latents have 16 channels; the defaults are those of Stable Diffusion XL.
constexpr int64_t kFluxChannels = 16;
constexpr double kFluxScale = 0.3611;
constexpr double kFluxShift = 0.1159;
/// EDM's sigma_data, the deviation of normalized latents.
constexpr double kEdmDeviationOfLatents = 0.5;

/// The family's scale if a file holds its network beside the autoencoder.
std::optional<double> scale_beside(const model_files::Checkpoint& files) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(files.path(), ignored)) {
    return std::nullopt;
  }
  const model_files::Family* family = find_family(model_files::Checkpoint::open(files.path()));
  return family == nullptr ? std::nullopt : std::optional(family->latent_scale);
}

kl::AutoencoderConfig from_shapes(const model_files::Checkpoint& files,
                                  std::optional<double> latent_scale) {
  const auto dims = [&](const std::string& key) -> const Dims& {
    const io::TensorView& view = files.at(key);
    check(view.shape.rank() == 4, "[weights] {}: `{}` is {}, expected a convolution", files.path(),
          view.name, to_string(view.shape));
    return view.shape.dims;
  };
  const auto conv = [](int64_t level, int64_t layer) {
    return fmt::format("encoder.down_blocks.{}.resnets.{}.conv1.weight", level, layer);
  };
  kl::AutoencoderConfig c;
  c.block_out_channels.clear();
  for (int64_t level = 0; files.find(conv(level, 0)) != nullptr; ++level) {
    c.block_out_channels.push_back(dims(conv(level, 0))[0]);
  }
  for (c.layers_per_block = 0; files.find(conv(0, c.layers_per_block)) != nullptr;) {
    ++c.layers_per_block;
  }
  c.latent_channels = dims("decoder.conv_in.weight")[1];
  c.use_quant_conv = files.find("quant_conv.weight") != nullptr;
  c.use_post_quant_conv = files.find("post_quant_conv.weight") != nullptr;
  if (c.latent_channels == kFluxChannels) {
    c.scaling_factor = kFluxScale;
    c.shift_factor = kFluxShift;
  } else if (const std::optional<double> beside = scale_beside(files)) {
    c.scaling_factor = *beside;
  } else if (latent_scale) {
    c.scaling_factor = *latent_scale;
  }
  if (const std::optional<model_files::LatentStatistics> of =
          model_files::latent_statistics(files.path())) {
    c.scaling_factor = kEdmDeviationOfLatents;
    c.latents_mean = of->mean;
    c.latents_std = of->deviation;
  }
  return c;
}

}  // namespace

kl::AutoencoderConfig kl_config(const model_files::Checkpoint& files,
                                std::optional<double> latent_scale) {
  if (files.config().is_object()) {
    return kl::parse_config(files.config());
  }
  kl::AutoencoderConfig config = from_shapes(files, latent_scale);
  try {
    kl::validate(config);
  } catch (const Error& error) {
    fail("{}\n  read off the shapes in {}", error.what(), files.path());
  }
  return config;
}

void check_kl_tensors(const model_files::Checkpoint& files, const kl::AutoencoderConfig& config) {
  std::vector<nn::ParamSpec> all = kl::encoder_parameters(config, {});
  for (nn::ParamSpec& spec : kl::decoder_parameters(config, {})) {
    all.push_back(std::move(spec));
  }
  check_tensors(files, all);
}

}  // namespace kinema::weights
