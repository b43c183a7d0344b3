#include "kinema/encoders/redux_encoder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/nn/linear.h"
#include "kinema/runtime/environment.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"

namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;

ImageProcessor siglip_processor(const fs::path& folder, int64_t side) {
  ImageProcessor out = read_image_processor(folder);
  out.do_center_crop = false;  // SigLIP's has none
  check(out.do_resize && out.height == side && out.width == side,
        "[image] {} resizes images to {} x {}, but the model takes {} x {}", folder.string(),
        out.height, out.width, side, side);
  return out;
}

clip::ReduxConfig redux_config(const io::Json& json) {
  return {.redux_dim = json.at("redux_dim").as_int(),
          .txt_in_features = json.at("txt_in_features").as_int()};
}

/// Removes the first axis: [1, ...] -> [...].
HostArray without_batch(const pjrt::Buffer& buffer) {
  HostArray array = buffer.to_host();
  array.shape.dims.erase(array.shape.dims.begin());
  return array;
}

/// sum += factor x, of f32 arrays.
void add_scaled(std::span<float> sum, std::span<const float> x, double factor) {
  std::ranges::transform(sum, x, sum.begin(),
                         [factor](float a, float b) { return a + static_cast<float>(factor) * b; });
}

class ReduxText final : public TextEncoder {
 public:
  ReduxText(std::shared_ptr<const TextEncoder> encoder, std::vector<ReduxImage> images)
      : encoder_(std::move(encoder)), images_(std::move(images)) {
    check(!images_.empty(), "[redux] there is no image");
    const Shape text = encoder_->shape();
    for (const ReduxImage& each : images_) {
      check(each.tokens.shape.rank() == 2 && each.tokens.shape == images_[0].tokens.shape &&
                each.tokens.shape.dims[1] == text.dims[1],
            "[redux] an image's tokens are {}, but text states are {}",
            to_string(each.tokens.shape), to_string(text));
    }
  }

  std::string name() const override { return encoder_->name() + " and redux"; }
  Shape shape() const override { return longer(encoder_->shape()); }
  int64_t rows(std::span<const Prompt> prompts) const override {
    return encoder_->rows(prompts) + images_[0].tokens.shape.dims[0];
  }
  Shape pooled_shape() const override { return encoder_->pooled_shape(); }
  void release() const override { encoder_->release(); }

 private:
  /// [..., t, d] with the rows of the tokens.
  Shape longer(Shape shape) const {
    shape.dims[shape.dims.size() - 2] += images_[0].tokens.shape.dims[0];
    return shape;
  }

  TextStates encode_prompts(std::span<const Prompt> prompts) const override {
    const TextStates text = encoder_->encode(prompts);
    TextStates out{.states = HostArray(longer(text.states.shape)),
                   .pooled = HostArray(text.pooled.shape)};
    const auto each = [&](const HostArray& x, size_t i) {
      const auto values = x.as<float>();
      const size_t size = values.size() / prompts.size();
      return values.subspan(i * size, size);
    };
    for (size_t i = 0; i < prompts.size(); ++i) {
      const size_t size = out.states.as<float>().size() / prompts.size();
      const auto states = out.states.as<float>().subspan(i * size, size);
      const auto own = each(text.states, i);
      const auto to = states.first(own.size());
      const size_t width = text.pooled.as<float>().size() / prompts.size();
      const auto pooled = out.pooled.as<float>().subspan(i * width, width);
      if (prompts[i].is_negative) {
        std::ranges::copy(own, to.begin());
        std::ranges::copy(each(text.pooled, i), pooled.begin());
        continue;
      }
      for (const ReduxImage& image : images_) {
        add_scaled(to, own, image.scale);
        add_scaled(states.subspan(own.size()), image.tokens.as<float>(), image.scale);
        add_scaled(pooled, each(text.pooled, i), image.pooled_scale);
      }
    }
    return out;
  }
  int64_t prompts_bytes(std::span<const Prompt> prompts) const override {
    return encoder_->memory_bytes(prompts);
  }

  std::shared_ptr<const TextEncoder> encoder_;
  std::vector<ReduxImage> images_;
};

}  // namespace

ReduxEncoder::ReduxEncoder(const pjrt::Client& client, const fs::path& folder,
                           runtime::ProgramOptions program)
    : client_(client), folder_(folder), options_(std::move(program)) {
  const io::ModelFolder siglip = io::ModelFolder::open(folder / "image_encoder");
  siglip_ = weights::parse_siglip_config(siglip.config());
  prefix_ = weights::siglip_prefix(siglip);
  weights::check_siglip_tensors(siglip, siglip_);
  processor_ = siglip_processor(folder / "feature_extractor", siglip_.image_size);
  const io::ModelFolder embedder = io::ModelFolder::open(folder / "image_embedder");
  redux_ = redux_config(embedder.config());
  weights::check_tensors(embedder, clip::redux_parameters(redux_));
  check(redux_.redux_dim == siglip_.hidden_size,
        "[redux] image_embedder takes states of {}, but image_encoder makes {}", redux_.redux_dim,
        siglip_.hidden_size);
}

Shape ReduxEncoder::shape() const {
  return {DType::F32, {siglip_.patches(), redux_.txt_in_features}};
}

void ReduxEncoder::release() const {
  const std::scoped_lock lock(mutex_);
  params_.clear();
  runtime::release_free_memory();
}

ReduxEncoder::Tokens ReduxEncoder::encode(const HostArray& image) const {
  HostArray pixels = processor_(image);
  const std::scoped_lock lock(mutex_);
  const std::vector<nn::ParamSpec> siglip = clip::siglip_parameters(siglip_, prefix_);
  const std::vector<nn::ParamSpec> redux = clip::redux_parameters(redux_);
  if (!program_) {
    Graph graph;
    std::vector<Tensor> params;
    for (const auto* specs : {&siglip, &redux}) {
      for (const nn::ParamSpec& spec : *specs) {
        params.push_back(graph.input(spec.shape, spec.name));
      }
    }
    const std::span<const Tensor> all(params);
    const Tensor in =
        graph.input({DType::F32, {1, 3, siglip_.image_size, siglip_.image_size}}, "pixels");
    // One image costs little, and its tokens are read by every block of every step.
    constexpr Precision kPrecision = Precision::HIGHEST;
    const Tensor states =
        clip::siglip_states(all.first(siglip.size()), siglip_, prefix_, in, DType::F32, kPrecision);
    const Tensor tokens =
        clip::redux_tokens(all.subspan(siglip.size()), redux_, states, kPrecision);
    const std::vector<Tensor> outputs{states, tokens};
    runtime::ProgramOptions program = options_;
    program.name = "redux";
    program_ = std::make_unique<runtime::Program>(
        runtime::Program::compile(client_, graph, outputs, program));
  }
  if (params_.empty()) {
    params_ =
        weights::load_tensors(io::ModelFolder::open(folder_ / "image_encoder"), siglip, client_);
    std::ranges::move(
        weights::load_tensors(io::ModelFolder::open(folder_ / "image_embedder"), redux, client_),
        std::back_inserter(params_));
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
  return {.pixels = std::move(pixels),
          .states = without_batch(results[0]),
          .tokens = without_batch(results[1])};
}

std::unique_ptr<TextEncoder> with_redux(std::shared_ptr<const TextEncoder> encoder,
                                        std::vector<ReduxImage> images) {
  return std::make_unique<ReduxText>(std::move(encoder), std::move(images));
}

}  // namespace kinema::encoders
