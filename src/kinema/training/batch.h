#pragma once

#include <string>
#include <vector>

#include "kinema/data/source.h"
#include "kinema/training/step.h"

/// A batch, from the data to the network's inputs.
namespace kinema::training {

/// A batch as tensors of the step.
struct TrainBatch {
  Tensor latents, text;                              // text after caption dropout
  Tensor condition, image_states, pooled, size_ids;  // empty if the model has no such input
  Tensor loss_weights;                               // empty if all latents count the same
  Tensor guidance;                                   // empty if the model has no such input
  Tensor noise, timestep, weight;                    // weight is empty without weights
  Tensor input_noise;                                // empty if it is `noise`
  Tensor given;                                      // pred [b], empty without given first frames
};

/// Declares the inputs of a batch, listed at StepGraph, and draws random values that are not
/// inputs.
TrainBatch batch_inputs(Graph& graph, const BatchShapes& batch, const StepOptions& options,
                        Tensor key);

/// The network's inputs for a batch, and the target.
struct Task {
  ModelInputs inputs;
  FlowBatch flow;
};
Task training_task(const TrainBatch& batch, Tensor dropout_key, const ObjectiveOptions& objective);

/// An array of a batch and its name in errors.
struct BatchPart {
  const HostArray* array;
  const char* what;
};
/// The arrays of a batch in the order of the step's inputs, from `latents` to `image_states`.
/// Throws an Error if the batch has an array that the step does not take, or lacks one that it
/// takes. The batch must outlive them.
std::vector<BatchPart> batch_parts(const data::Batch& batch, const BatchShapes& shapes);

}  // namespace kinema::training
