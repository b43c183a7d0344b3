#include "kinema/training/batch_shapes.h"

#include "kinema/core/error.h"

namespace kinema::training {
namespace {

Shape batched(const Shape& sample, int64_t batch) {
  Shape out = sample;
  out.dims.insert(out.dims.begin(), batch);
  return out;
}

/// The image condition and image states of a batch, which must be there exactly where the model
/// takes them.
void add_images(const data::Sample& sample, const networks::Sizes& model, int64_t batch,
                BatchShapes& out) {
  const networks::NamedInput* input = model.stored_input();
  const Shape& condition = sample.condition.shape;
  const Shape& states = sample.image_states.shape;
  const bool has_condition = !sample.condition.bytes.empty();
  const bool has_states = !sample.image_states.bytes.empty();
  check(has_condition || input == nullptr || input->optional,
        "[train] {} has no image condition, which this model is shown\n"
        "  `kinema prepare` with this model and model_type=I2V writes records that have one",
        sample.id);
  check(!has_condition || input != nullptr,
        "[train] {} has an image condition, but this model makes {}s of text alone\n"
        "  give records that were prepared for it, or an image-to-video model",
        sample.id, model.noun());
  check(has_states || model.image_dim == 0,
        "[train] {} has no image states, which this model takes from CLIP (image_dim {})\n  "
        "`kinema prepare` with this model and model_type=I2V writes records that have them",
        sample.id, model.image_dim);
  check(!has_states || model.image_dim > 0,
        "[train] {} has image states of CLIP, but this model has no place for them (image_dim 0)\n"
        "  give records that were prepared for it",
        sample.id);
  if (has_condition) {
    out.condition = batched(condition, batch);
    const Dims latents = batched(sample.latents.shape, batch).dims;
    check(input->fits(out.condition->dims, latents),
          "[train] the {} of {} is {}, but the model takes {}", input->name, sample.id,
          to_string(out.condition->dims), input->wanted(latents));
  }
  if (has_states) {
    check(states.dims.size() == 2 && states.dims[1] == model.image_dim,
          "[train] the image states of {} are {}, but the model takes [n, {}]", sample.id,
          to_string(states), model.image_dim);
    out.image_states = batched(states, batch);
    const int64_t text = sample.encoder_hidden_states.shape.dims[0];
    check(model.text_tokens == 0 || text == model.text_tokens,
          "[train] this model takes {0} text tokens, but {1} has {2}\n  max_sequence_length={0} is "
          "needed",
          model.text_tokens, sample.id, text);
  }
}

/// The pooled text and the picture's sizes, for models with these inputs.
void add_vectors(const data::Sample& sample, const networks::Sizes& model, int64_t batch,
                 BatchShapes& out) {
  const auto add = [&](const HostArray& array, int64_t wanted, std::string_view what,
                       std::optional<Shape>& shape) {
    check(!array.bytes.empty() || wanted == 0,
          "[train] {} has no {}, which this model takes\n  `kinema prepare` with this model writes "
          "records that have it",
          sample.id, what);
    check(array.bytes.empty() || wanted > 0,
          "[train] {} has {}, but this model takes none\n  give records that were prepared for it",
          sample.id, what);
    if (wanted > 0) {
      check(array.shape.dims == Dims({wanted}),
            "[train] the {} of {} is {}, but the model takes [{}]", what, sample.id,
            to_string(array.shape), wanted);
      shape = batched(array.shape, batch);
    }
  };
  add(sample.pooled, model.pooled_dim, "pooled text", out.pooled);
  add(sample.size_ids, model.size_ids, "picture's sizes", out.size_ids);
}

}  // namespace

BatchShapes batch_shapes(const data::Sample& sample, const networks::Sizes& model, int64_t batch) {
  const Shape& latents = sample.latents.shape;
  const Shape& text = sample.encoder_hidden_states.shape;
  check(latents.dims.size() == 4 && latents.dims[0] == model.out_channels,
        "[train] the latents of {} are {}, but the model takes [{}, f, h, w]", sample.id,
        to_string(latents), model.out_channels);
  const bool has_ids = model.text_is_ids     ? is_integer(text.dtype)
                       : model.pooled_is_ids ? is_integer(sample.pooled.shape.dtype)
                                             : !is_integer(text.dtype);
  check(has_ids || is_integer(text.dtype),
        "[train] {} has states of its text, but text encoders are trained, which read its words\n"
        "  give clips or pictures with captions instead of records, or train_text_encoder=false",
        sample.id);
  check(has_ids, "[train] {} has token ids, but this model takes states of its text", sample.id);
  check(text.dims.size() == 2 && text.dims[1] == model.text_dim,
        "[train] the text states of {} are {}, but the model takes [t, {}]", sample.id,
        to_string(text), model.text_dim);
  for (size_t i = 0; i < 3; ++i) {
    check(latents.dims[i + 1] % model.patch_size[i] == 0,
          "[train] the latents of {} are {}, which patches of {}x{}x{} do not divide", sample.id,
          to_string(latents), model.patch_size[0], model.patch_size[1], model.patch_size[2]);
  }
  BatchShapes out{.latents = batched(latents, batch), .text = batched(text, batch)};
  check(latents.dims[1] == 1 || !model.makes_images,
        "[train] {} has {} latent frames, but this model makes images", sample.id, latents.dims[1]);
  add_images(sample, model, batch, out);
  add_vectors(sample, model, batch, out);
  if (const HostArray& weights = sample.loss_weights; !weights.bytes.empty()) {
    check(weights.shape.dims == Dims({1, latents.dims[1], latents.dims[2], latents.dims[3]}),
          "[train] the loss weights of {} are {}, but its latents are {}", sample.id,
          to_string(weights.shape), to_string(latents));
    out.loss_weights = batched(weights.shape, batch);
  }
  return out;
}

}  // namespace kinema::training
