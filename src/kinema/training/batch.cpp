#include "kinema/training/batch.h"

#include <array>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::training {
namespace {

/// Throws unless the array exists exactly if the step has such an input.
void check_part(const data::Batch& batch, const HostArray& array,
                const std::optional<Shape>& wanted, const char* what) {
  const char* sample = batch.ids.empty() ? "the batch" : batch.ids[0].c_str();
  check(!array.bytes.empty() || !wanted, "[train] {} has no {}, which the step takes", sample,
        what);
  check(array.bytes.empty() || wanted, "[train] {} brings {}, which the step does not take", sample,
        what);
}

}  // namespace

TrainBatch batch_inputs(Graph& graph, const BatchShapes& batch, const StepOptions& options,
                        Tensor key) {
  TrainBatch part;
  const mesh::Placement& place = options.place;
  const auto input = [&](const Shape& shape, const char* name) {
    Sharding sharding = place.whole(shape.dims);
    if (place.active()) {
      sharding.dims[0] = options.batch_axes;
    }
    return by_sample(graph.input(shape, name, sharding), 0, place);
  };
  part.latents = input(batch.latents, "latents");
  part.text = input(batch.text, "text");
  constexpr std::array<Tensor TrainBatch::*, kExtraShapes.size()> kExtras{
      &TrainBatch::condition, &TrainBatch::image_states, &TrainBatch::pooled, &TrainBatch::size_ids,
      &TrainBatch::loss_weights};
  for (size_t i = 0; i < kExtras.size(); ++i) {
    if (const std::optional<Shape>& shape = batch.*kExtraShapes[i].shape) {
      part.*kExtras[i] = input(*shape, kExtraShapes[i].input);
    }
  }
  if (options.objective.caption_dropout > 0.0) {
    const Dims& text = batch.text.dims;
    const Tensor empty = graph.input({batch.text.dtype, {text[1], text[2]}}, "empty_text",
                                     place.whole({text[1], text[2]}));
    part.text = drop_captions(key, part.text, empty, options.objective.caption_dropout);
    if (batch.pooled) {
      const Dims row{batch.pooled->dims[1]};
      const Tensor no_words =
          graph.input({batch.pooled->dtype, row}, "empty_pooled", place.whole(row));
      part.pooled = drop_captions(key, part.pooled, no_words, options.objective.caption_dropout);
    }
  }
  const int64_t samples = batch.latents.dims[0];
  const bool gives = draws_first_frames(options.objective, batch.latents);
  if (options.given_draw) {
    part.noise = input({DType::F32, batch.latents.dims}, "noise");
    part.timestep = input({DType::F32, {samples}}, "timestep");
    part.weight = input({DType::F32, {samples}}, "weight");
    if (options.objective.guidance) {
      part.guidance = input({DType::F32, {samples}}, "guidance");
    }
    if (gives) {
      part.given =
          compare(input({DType::F32, {samples}}, "first_frame_given"), Comparison::GT, 0.5);
    }
  } else {
    const Tensor expert =
        options.objective.boundary ? graph.input({DType::U32, {}}, "expert") : Tensor();
    const Draw drawn = draw(key, part.latents, options.objective, expert);
    // Every device draws its part: a number depends on its position only.
    part.noise = by_sample(drawn.noise, 0, place);
    part.timestep = by_sample(drawn.timestep, 0, place);
    part.weight = drawn.weight;
    if (drawn.input_noise) {
      part.input_noise = by_sample(drawn.input_noise, 0, place);
    }
    if (options.objective.guidance) {
      part.guidance = constant(graph, *options.objective.guidance, {DType::F32, {samples}});
    }
    if (gives) {
      part.given = by_sample(drawn.given, 0, place);
    }
  }
  return part;
}

Task training_task(const TrainBatch& batch, Tensor dropout_key, const ObjectiveOptions& objective) {
  Task out;
  out.flow = flow_batch(batch.latents, batch.noise, batch.timestep, objective, batch.given,
                        batch.input_noise);
  if (batch.loss_weights) {
    const Tensor weights = convert(batch.loss_weights, DType::F32);
    out.flow.counts = out.flow.counts ? out.flow.counts * weights : weights;
  }
  out.inputs = {.noisy = out.flow.noisy,
                .timestep = batch.timestep,
                .text = batch.text,
                .dropout_key = dropout_key,
                .condition = batch.condition,
                .image_states = batch.image_states,
                .pooled = batch.pooled,
                .size_ids = batch.size_ids,
                .guidance = batch.guidance,
                .given = batch.given};
  return out;
}

std::vector<BatchPart> batch_parts(const data::Batch& batch, const BatchShapes& shapes) {
  std::vector<BatchPart> out{{&batch.latents, "latents"},
                             {&batch.encoder_hidden_states, "text states"}};
  for (const ExtraShape& extra : kExtraShapes) {
    check_part(batch, batch.*extra.array, shapes.*extra.shape, extra.what);
    if (shapes.*extra.shape) {
      out.push_back({&(batch.*extra.array), extra.what});
    }
  }
  return out;
}

}  // namespace kinema::training
