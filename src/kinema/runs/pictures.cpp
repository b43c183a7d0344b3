#include "kinema/runs/pictures.h"

#include <optional>

#include "kinema/core/error.h"
#include "kinema/networks/open.h"
#include "kinema/runs/model_places.h"
#include "kinema/runs/network.h"
#include "kinema/runs/trained_model.h"
#include "kinema/weights/family.h"

namespace kinema::runs {

Pictures pictures_of(const networks::Network& network) {
  const networks::Sizes& sizes = network.sizes();
  Pictures out{.images = sizes.makes_images, .sizes = sizes.size_ids > 0};
  if (const weights::Family* family = weights::family_of_config(network->config())) {
    out.side = family->pipelines.front().images.side;
  }
  return out;
}

Pictures pictures_of(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  if (const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config)) {
    const weights::PipelineClass* known = weights::pipeline_class(pipeline->class_name);
    return known == nullptr ? Pictures{}
                            : Pictures{.images = known->images.side > 0,
                                       .sizes = known->images.told_sizes,
                                       .side = known->images.side};
  }
  const std::filesystem::path here = pretrained_transformer(config);
  return pictures_of(here.empty() ? scratch_network(loaded) : networks::open(here));
}

void set_image_keys(config::Loaded& loaded, const Pictures& pictures) {
  if (!pictures.images) {
    return;
  }
  config::GenerateConfig& g = loaded.config.generate;
  check(!loaded.gives("num_frames") || g.num_frames == 1,
        "[config] num_frames is {}, but this model makes images\n  num_frames=1, or leave it out",
        g.num_frames);
  g.num_frames = 1;
  if (!loaded.gives("height") && !loaded.gives("width")) {
    g.height = pictures.side;
    g.width = pictures.side;
  }
  check(loaded.gives("height") == loaded.gives("width"),
        "[config] {} is given without {}\n  resolution=... sets both",
        loaded.gives("height") ? "height" : "width", loaded.gives("height") ? "width" : "height");
}

}  // namespace kinema::runs
