#include "kinema/resolve/missing_features.h"

#include <fmt/format.h>

#include <utility>

namespace kinema::resolve {

using config::MissingFeatures;
using config::Needs;

MissingFeatures missing_features(const networks::Network& network, bool two_experts,
                                 const config::Config& config) {
  const networks::Sizes& sizes = network.sizes();
  const bool is_flow = !network->learned().diffusion;
  const bool has_own_text = config.model.text_encoder != config::TextEncoder::HASHED;
  MissingFeatures out;
  const auto needs = [&](Needs what, bool is_there, std::string why) {
    if (!is_there) {
      out.emplace(what, std::move(why));
    }
  };
  needs(Needs::VIDEOS, !sizes.makes_images, "this model makes images");
  needs(Needs::IMAGES, sizes.makes_images, "this model makes videos");
  needs(Needs::FLOW, is_flow, "this model is a diffusion");
  needs(Needs::DIFFUSION, !is_flow, "this model is a rectified flow");
  needs(Needs::GUIDANCE, sizes.takes_guidance || !sizes.guidance_distilled,
        "this model takes no guidance scale");
  needs(Needs::EMBEDDED_GUIDANCE, sizes.takes_guidance, "this model takes no guidance scale");
  needs(Needs::TRUE_GUIDANCE, sizes.guidance_distilled, "this model uses guidance_scale");
  needs(Needs::SECOND_TEXT, sizes.pooled_dim > 0, "this model has one text encoder");
  needs(Needs::INNER_CLIP, sizes.encoder_tokens > 0, "this model uses no inner layer of CLIP");
  needs(Needs::TEXT_LENGTH, sizes.encoder_tokens == 0 || !has_own_text,
        fmt::format("this model's text has {} tokens", sizes.encoder_tokens));
  needs(Needs::PICTURE_SIZES, sizes.size_ids > 0, "this model takes no size conditioning");
  needs(Needs::EXPERTS, two_experts, "this model has one transformer");
  return out;
}

MissingFeatures missing_features(const networks::Network& network, bool two_experts,
                                 const config::Config& config,
                                 const sample::GenerateRequest& request) {
  MissingFeatures out = missing_features(network, two_experts, config);
  const bool is_distilled = network.sizes().guidance_distilled;
  const char* key = is_distilled ? "true_cfg_scale" : "guidance_scale";
  const bool has_scale =
      (is_distilled ? request.true_cfg_scale
                    : request.guidance_scale + network.sizes().guidance_offset) > 1.0;
  const bool has_prompt = !is_distilled || request.negative_prompt.has_value();
  if (!has_scale) {
    out.emplace(Needs::TWO_PASSES,
                config.generate.do_classifier_free_guidance
                    ? fmt::format("without {} above {:g}", key,
                                  is_distilled ? 1.0 : 1.0 - network.sizes().guidance_offset)
                    : "set with do_classifier_free_guidance=false");
  }
  if (!has_prompt) {
    out.emplace(Needs::TWO_PASSES, "without negative_prompt");
    out.emplace(Needs::TRUE_GUIDANCE, "without negative_prompt");
  }
  return out;
}

std::vector<std::string> notices(const config::Loaded& loaded, const std::string& command) {
  return config::notices(loaded, command);
}

std::vector<std::string> model_notices(const config::Loaded& loaded,
                                       const networks::Network& network, bool two_experts) {
  return config::model_notices(loaded, "train",
                               missing_features(network, two_experts, loaded.config));
}

std::vector<std::string> model_notices(const config::Loaded& loaded,
                                       const networks::Network& network, bool two_experts,
                                       const sample::GenerateRequest& request) {
  return config::model_notices(loaded, "generate",
                               missing_features(network, two_experts, loaded.config, request));
}

}  // namespace kinema::resolve
