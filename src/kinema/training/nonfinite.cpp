#include "kinema/training/nonfinite.h"

#include <algorithm>
#include <utility>

#include "kinema/training/batch.h"

namespace kinema::training {

namespace {

constexpr const char* kParameter = "parameter ";

}  // namespace

ProbeGraph build_probe(std::span<const nn::ParamSpec> specs, const TappedModel& model,
                       const BatchShapes& batch, const StepOptions& options) {
  ProbeGraph probe;
  probe.graph = std::make_unique<Graph>();
  Graph& graph = *probe.graph;
  std::vector<Tensor> flags;
  const auto look = [&](const std::string& name, Tensor value) {
    if (!is_float(value.dtype())) {
      return;  // token ids
    }
    flags.push_back(reshape(convert(all(is_finite(value)), DType::F32), {1}));
    probe.names.push_back(name);
  };

  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : state_specs(specs, options.state)) {
    params.push_back(spec.input(graph, options.place, "param."));
  }
  const Tensor run_key = graph.input({DType::U32, {2}}, "key", options.place.whole({2}));
  const Tensor number = graph.input({DType::U32, {}}, "step");
  const Tensor key = fold_in(run_key, number);
  const TrainBatch part = batch_inputs(graph, batch, options, key);
  look("the batch's latents", part.latents);
  look("the batch's text states", part.text);
  for (const auto& [what, value] : {std::pair{"image condition", part.condition},
                                    {"image states", part.image_states},
                                    {"pooled text", part.pooled},
                                    {"sizes", part.size_ids},
                                    {"loss weights", part.loss_weights}}) {
    if (value) {
      look(std::string("the batch's ") + what, value);
    }
  }

  std::vector<Tensor> weights;
  for (size_t i = 0; i < specs.size(); ++i) {
    weights.push_back(convert(params[i], specs[i].shape.dtype));
  }
  const Task task = training_task(part, fold_in(key, "dropout"), options.objective);
  const Tensor prediction = model(weights, task.inputs, look);
  look("the prediction", prediction);
  look("the loss", flow_loss(prediction, task.flow, part.weight));

  const std::vector<std::string> names = layer_names(specs);
  size_t at = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].layers == 0) {
      look(kParameter + names[at++], params[i]);
      continue;
    }
    for (int64_t layer = 0; layer < specs[i].layers; ++layer) {
      look(kParameter + names[at++], slice(params[i], Axis(0), layer, 1));
    }
  }
  probe.outputs = {concatenate(flags, Axis(0))};
  return probe;
}

std::string describe_nonfinite(std::span<const std::string> names, std::span<const float> finite,
                               std::span<const std::string> gradients) {
  std::string first;
  std::string parameter;
  for (size_t i = 0; i < names.size(); ++i) {
    if (finite[i] != 0.0F) {
      continue;
    }
    const bool is_parameter = names[i].starts_with(kParameter);
    if (is_parameter && parameter.empty()) {
      parameter = names[i];
    } else if (!is_parameter && first.empty()) {
      first = names[i];
    }
  }
  if (!first.empty()) {
    return parameter.empty() ? first : first + " (" + parameter + " is not finite)";
  }
  if (!parameter.empty()) {
    return parameter;
  }
  return gradients.empty() ? "the sum of the gradients' squares"
                           : "the gradient of " + gradients.back();
}

}  // namespace kinema::training
