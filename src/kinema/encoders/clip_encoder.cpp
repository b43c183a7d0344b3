#include "kinema/encoders/clip_encoder.h"

#include <string>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/models/clip/vision.h"
#include "kinema/nn/linear.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"

namespace kinema::encoders {
namespace {

runtime::Program compile(const pjrt::Client& client, const clip::VisionConfig& config,
                         const std::string& prefix, const ClipOptions& options) {
  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : clip::token_parameters(config, prefix, options.dtype)) {
    params.push_back(graph.input(spec.shape, spec.name));
  }
  const Tensor pixels = graph.input(
      {DType::F32, {1, config.num_channels, config.image_size, config.image_size}}, "pixels");
  clip::VisionOptions vision{.dtype = options.dtype};
  // One image costs little, and its tokens are read by every block of every step.
  vision.precision = Precision::HIGHEST;
  std::vector<Tensor> outputs(1);
  vision.tap = [&](const char*, Tensor value) { outputs.push_back(nn::as(value, DType::F32)); };
  outputs[0] = nn::as(clip::image_tokens(params, config, prefix, pixels, vision), DType::F32);
  runtime::ProgramOptions program = options.program;
  program.name = "clip_vision";
  return runtime::Program::compile(client, graph, outputs, program);
}

/// Removes the first axis: [1, ...] -> [...].
HostArray first(const pjrt::Buffer& buffer) {
  HostArray array = buffer.to_host();
  array.shape.dims.erase(array.shape.dims.begin());
  return array;
}

}  // namespace

ClipEncoder::ClipEncoder(const pjrt::Client& client, const std::filesystem::path& model,
                         const std::filesystem::path& processor, const ClipOptions& options)
    : processor_(read_image_processor(processor)),
      client_(client),
      folder_(model),
      options_(options) {
  const io::ModelFolder folder = io::ModelFolder::open(model);
  config_ = weights::parse_clip_config(folder.config());
  weights::check_clip_tensors(folder, config_);
  prefix_ = weights::clip_prefix(folder);
  processor_.rounding = options.rounding;
  check(!processor_.do_center_crop || (processor_.crop_height == config_.image_size &&
                                       processor_.crop_width == config_.image_size),
        "[image] {} crops images to {} x {}, but the model in {} takes {} x {}", processor.string(),
        processor_.crop_height, processor_.crop_width, model.string(), config_.image_size,
        config_.image_size);
}

Shape ClipEncoder::shape() const {
  const int64_t side = config_.image_size / config_.patch_size;
  return {DType::F32, {side * side + 1, config_.hidden_size}};
}

HostArray ClipEncoder::encode(const HostArray& image) const {
  return run(processor_(image)).tokens;
}

ClipEncoder::Tokens ClipEncoder::run(const HostArray& pixels) const {
  check(pixels.shape == Shape{DType::F32, {3, config_.image_size, config_.image_size}},
        "[image] the image processor made {}, but the model takes f32[3,{},{}]",
        to_string(pixels.shape), config_.image_size, config_.image_size);
  const std::scoped_lock lock(mutex_);
  if (!program_) {
    program_ = std::make_unique<runtime::Program>(compile(client_, config_, prefix_, options_));
  }
  if (params_.empty()) {
    params_ =
        weights::load_tensors(io::ModelFolder::open(folder_),
                              clip::token_parameters(config_, prefix_, options_.dtype), client_);
  }
  HostArray batch = pixels;
  batch.shape.dims.insert(batch.shape.dims.begin(), 1);
  const pjrt::Buffer input = client_.to_device(std::move(batch));
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& param : params_) {
    arguments.push_back(&param);
  }
  arguments.push_back(&input);
  const std::vector<pjrt::Buffer> results = program_->run(arguments);
  return {.tokens = first(results[0]), .embeddings = first(results[1])};
}

}  // namespace kinema::encoders
