#include "kinema/model_source/trained_model.h"

#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/encoders/clip_encoder.h"
#include "kinema/model_files/family.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/networks/open.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;

/// The boundary ratio of the named pipeline: the given one, the pipeline's, or the default.
double boundary_of(const config::Config& config,
                   const std::optional<sample::PipelineFolder>& pipeline) {
  const config::Given<double>& ratio = config.generate.boundary_ratio;
  return !ratio.given && pipeline && pipeline->boundary_ratio ? *pipeline->boundary_ratio
                                                              : ratio.value;
}

}  // namespace

std::optional<sample::PipelineFolder> pipeline_index(const config::Config& config) {
  const fs::path folder = config.model.pretrained_model_name_or_path;
  std::error_code ignored;
  if (folder.empty() || !fs::exists(folder / "model_index.json", ignored)) {
    return std::nullopt;
  }
  return sample::read_pipeline_folder(folder, sample::RequiredParts::SOME);
}

bool makes_videos(const config::RunConfig& run) {
  return run.enable_ssim || (run.enable_generate_video_for_eval && run.eval_every > 0);
}

std::string Expert::part() const { return is_low_noise() ? "transformer_2" : "transformer"; }
std::string Expert::other_part() const { return is_low_noise() ? "transformer" : "transformer_2"; }

std::string single_part(const networks::Network& network) {
  const model_files::Family* family = model_files::family_of_config(network->config());
  return std::string(family == nullptr ? model_files::Family().part : family->part);
}

std::string trained_part(const networks::Network& network, const Expert& expert) {
  return expert.is_low_noise() ? expert.part() : single_part(network);
}

std::vector<Expert> Expert::each() const {
  if (!is_both()) {
    return {*this};
  }
  Expert high{.which = config::TrainExpert::HIGH_NOISE,
              .min_timestep = boundary(),
              .max_timestep = max_timestep,
              .boundary_ratio = boundary_ratio};
  Expert low{.which = config::TrainExpert::LOW_NOISE,
             .min_timestep = min_timestep,
             .max_timestep = high.min_timestep,
             .boundary_ratio = boundary_ratio};
  return {high, low};
}

std::string Expert::timesteps() const {
  const std::string all = fmt::format("timesteps {:g} to {:g}", min_timestep, max_timestep);
  return is_both() ? fmt::format("{}, {} from {:g} up", all,
                                 config::word_of(config::TrainExpert::HIGH_NOISE), boundary())
                   : all;
}

Expert trained_expert(const config::Config& config) {
  const config::OptimizerConfig& o = config.optimizer;
  Expert out{.which = o.train_expert};
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  if (out.which == config::TrainExpert::NONE) {
    check(!pipeline || !pipeline->has_two_experts(),
          "[config] {} has two experts: which does the run train?\n"
          "  set train_expert to high_noise, low_noise, or both",
          config.model.pretrained_model_name_or_path);
  } else {
    check(!pipeline || pipeline->has_two_experts() ||
              !config.model.wan_transformer_pretrained_model_name_or_path.empty(),
          "[config] train_expert is {}, but {} has one transformer\n"
          "  set train_expert=none",
          out.name(), config.model.pretrained_model_name_or_path);
    out.boundary_ratio = boundary_of(config, pipeline);
    if (!out.is_both()) {
      (out.is_low_noise() ? out.max_timestep : out.min_timestep) = out.boundary();
    }
  }
  const Expert whole = out;
  out.min_timestep = o.min_timestep < 0 ? out.min_timestep : o.min_timestep;
  out.max_timestep = o.max_timestep < 0 ? out.max_timestep : o.max_timestep;
  check(out.min_timestep >= whole.min_timestep && out.max_timestep <= whole.max_timestep,
        "[config] {} cross the boundary of the experts: the {} expert is used at {}\n"
        "  min_timestep and max_timestep must be in that range",
        out.timesteps(), out.name(), whole.timesteps());
  check(out.min_timestep < out.max_timestep,
        "[config] there are no timesteps from min_timestep {:g} to max_timestep {:g}",
        out.min_timestep, out.max_timestep);
  for (const Expert& one : out.each()) {
    check(one.min_timestep < one.max_timestep,
          "[config] no timestep from {:g} to {:g} belongs to the {} expert, but train_expert is "
          "both\n"
          "  the boundary is at {:g}: set another range, or train_expert={}",
          out.min_timestep, out.max_timestep, one.name(), out.boundary(),
          config::word_of(one.is_low_noise() ? config::TrainExpert::HIGH_NOISE
                                             : config::TrainExpert::LOW_NOISE));
  }
  return out;
}

void check_videos(const config::Config& config, const Expert& expert) {
  if (expert.which == config::TrainExpert::NONE || expert.is_both() || !makes_videos(config.run)) {
    return;  // no other expert is needed
  }
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  std::error_code ignored;
  check(pipeline && fs::is_directory(pipeline->folder / expert.other_part(), ignored),
        "[config] videos of the run need both experts, but pretrained_model_name_or_path `{}` is "
        "not a pipeline with {}/\n"
        "  enable_generate_video_for_eval=false enable_ssim=false turns videos off",
        config.model.pretrained_model_name_or_path, expert.other_part());
}

std::optional<PreparedInput> prepared_input(const config::Loaded& loaded) {
  if (!loaded.config.model.train_controlnet.empty()) {
    return PreparedInput{.input = {.name = "control_pictures",
                                   .entry = networks::Entry::PICTURES,
                                   .made_of = networks::MadeOf::CONTROL_PICTURES}};
  }
  const std::optional<PreparedInput> of_images =
      has_image_condition(loaded.config)
          ? std::optional(PreparedInput{
                .input = {.name = "condition", .made_of = networks::MadeOf::FIRST_AND_LAST}})
          : std::nullopt;
  const fs::path here = local_transformer(loaded.config);
  std::error_code ignored;
  const bool readable =
      fs::exists(here / "config.json", ignored) || !fs::is_directory(here, ignored);
  if (here.empty() || !readable) {
    return of_images;
  }
  const networks::Network network = networks::open(here);
  const networks::NamedInput* input = network.sizes().stored_input();
  return input == nullptr ? of_images
                          : std::optional(PreparedInput{
                                .input = *input, .last_frame = network.sizes().takes_last_image});
}

bool has_image_condition(const config::Config& config) {
  return config.model.model_type == config::ModelType::I2V;
}

std::vector<std::string> check_model_type(const config::Config& config,
                                          const networks::Sizes& model) {
  const config::ModelType type = config.model.model_type;
  const int64_t channels = model.condition_channels();
  check(
      networks::find_entry(model.named, networks::Entry::POSES) == nullptr,
      "[train] Wan-Animate is sampled, not trained: train takes Wan's networks for text, image and "
      "control to video");
  check(channels >= 0,
        "[train] a model with {} input channels and {} output channels cannot be trained",
        model.in_channels, model.out_channels);
  const networks::NamedInput* input = model.stored_input();
  const bool of_frames = input != nullptr && input->made_of == networks::MadeOf::FIRST_AND_LAST;
  check(
      channels == 0 || !of_frames || has_image_condition(config),
      "[train] model_type is {}, but the transformer has {} input channels for image conditioning\n"
      "  model_type=I2V trains it",
      config::word_of(type), channels);
  check(channels > 0 || !has_image_condition(config),
        "[train] model_type is I2V, but the transformer has {} input channels and as many output "
        "channels: none are for image conditioning\n"
        "  set model_type=T2V, or TI2V for a model with a first frame",
        model.in_channels);
  check(type != config::ModelType::VACE ||
            networks::find_entry(model.named, networks::Entry::BRANCH) != nullptr,
        "[train] model_type is VACE, but the transformer has no control branch\n"
        "  transformer_module=FILE lays one over it");
  check(model.makes_images || type != config::ModelType::T2I,
        "[train] model_type is T2I, but this model makes videos\n  do not set model_type");
  check(!model.makes_images || type == config::ModelType::T2V || type == config::ModelType::T2I,
        "[train] model_type is {}, but this is a text-to-image model\n"
        "  do not set model_type",
        config::word_of(type));
  check(!model.takes_last_image || config.generate.num_frames > 1,
        "[train] this model makes the video between a first and a last frame, but num_frames is "
        "{}\n  expected 5 or more",
        config.generate.num_frames);
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  if (type != config::ModelType::TI2V) {
    if (type == config::ModelType::T2V && pipeline && pipeline->expand_timesteps) {
      return {fmt::format(
          "{} is also an image-to-video model; model_type=T2V trains it on text only, TI2V on both",
          config.model.pretrained_model_name_or_path)};
    }
    return {};
  }
  check(model.patch_size[0] == 1,
        "[train] model_type TI2V needs patches of one latent frame, not of {}",
        model.patch_size[0]);
  if (config.model.autoencoder == config::Autoencoder::SPACE_TO_DEPTH) {
    const int64_t frames = model_source::space_to_depth(config).frames();
    check(frames == 1,
          "[train] model_type TI2V needs an autoencoder whose first latent frame is one frame, but "
          "with space_to_depth it is {} frames",
          frames);
  }
  if (pipeline && !pipeline->expand_timesteps) {
    return {
        fmt::format("the pipeline in {} has no expand_timesteps in its model_index.json, which "
                    "sampling with TI2V needs",
                    config.model.pretrained_model_name_or_path)};
  }
  return {};
}

}  // namespace kinema::model_source
