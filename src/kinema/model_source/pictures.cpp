#include "kinema/model_source/pictures.h"

#include <optional>

#include "kinema/config/buckets.h"
#include "kinema/core/error.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/network.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/networks/open.h"

namespace kinema::model_source {

model_files::ImageDefaults image_defaults(
    const networks::Network& network, std::string_view pipeline_class,
    const std::optional<schedulers::ScheduleConfig>& schedule) {
  const model_files::Family* family = model_files::family_of_config(network->config());
  check(family != nullptr, "[config] a network of no known family");
  const model_files::PipelineClass* own = model_files::pipeline_class(pipeline_class);
  model_files::ImageDefaults out = (own != nullptr ? *own : family->pipelines.front()).images;
  constexpr int64_t kCell = 8;  // pixels per side of a latent, in all image autoencoders
  if (network.sizes().sample_size > 0) {
    out.side = network.sizes().sample_size * kCell;
  }
  if (schedule && out.distilled_shift > 0.0 && schedule->shift == out.distilled_shift) {
    out.num_inference_steps = out.distilled_steps;
    out.guidance_scale = 0.0;
  }
  // As on the pages of Flux Fill, Depth and Canny: they were distilled with larger scales.
  if (const int64_t more = network.sizes().condition_channels();
      network.sizes().takes_guidance && more > 0) {
    out.guidance_scale = more > network.sizes().out_channels ? 30.0 : 10.0;
  }
  return out;
}

Pictures picture_settings(const networks::Network& network) {
  const networks::Sizes& sizes = network.sizes();
  return {.images = sizes.makes_images,
          .sizes = sizes.size_ids > 0,
          .side = sizes.makes_images ? image_defaults(network).side : 0};
}

Pictures picture_settings(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  std::error_code ignored;
  if (pipeline && !std::filesystem::exists(pipeline->transformer / "config.json", ignored)) {
    const model_files::PipelineClass* known = model_files::pipeline_class(pipeline->class_name);
    return known == nullptr ? Pictures{}
                            : Pictures{.images = known->images.side > 0,
                                       .sizes = known->images.takes_size_ids,
                                       .side = known->images.side};
  }
  const std::filesystem::path here = trained_transformer(config);
  return picture_settings(here.empty() ? scratch_network(loaded) : networks::open(here));
}

config::Loaded with_image_keys(config::Loaded loaded, const Pictures& pictures) {
  if (!pictures.images) {
    return loaded;
  }
  config::GenerateConfig& g = loaded.config.generate;
  check(!loaded.is_set("num_frames") || g.num_frames == 1,
        "[config] num_frames is {}, but this model makes images\n"
        "  set num_frames=1, or do not set it",
        g.num_frames);
  for (const auto& [frames, height, width] : config::read_buckets(loaded.config.data).sizes) {
    check(frames == 1,
          "[config] buckets has [{0}, {1}, {2}], but this model makes images\n  [1, {1}, {2}] "
          "is that size of one frame",
          frames, height, width);
  }
  g.num_frames = 1;
  if (!loaded.is_set("height") && !loaded.is_set("width")) {
    g.height = pictures.side;
    g.width = pictures.side;
  }
  check(loaded.is_set("height") == loaded.is_set("width"),
        "[config] {} is given without {}\n  resolution=... sets both",
        loaded.is_set("height") ? "height" : "width", loaded.is_set("height") ? "width" : "height");
  return loaded;
}

}  // namespace kinema::model_source
