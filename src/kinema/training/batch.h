#pragma once

#include <string>
#include <vector>

#include "kinema/data/source.h"
#include "kinema/training/step.h"

/// A batch on its way from the data to the network.
namespace kinema::training {

/// A batch as the step works on it.
struct TrainBatch {
  Tensor latents, text;                              // text after caption dropout
  Tensor condition, image_states, pooled, size_ids;  // empty where the model takes none
  Tensor guidance;                                   // the same
  Tensor noise, timestep, weight;                    // weight is empty when samples are not weighed
  Tensor given;                                      // pred [b], empty without given first frames
};

/// Declares the inputs of a batch, as listed at StepGraph, and draws what is not given.
TrainBatch batch_inputs(Graph& graph, const BatchShapes& batch, const StepOptions& options,
                        Tensor key);

/// What the network sees of a batch and should predict.
struct Task {
  ModelInputs inputs;
  FlowBatch flow;
};
Task task_of(const TrainBatch& batch, Tensor dropout_key, const ObjectiveOptions& objective);

/// An array of a batch and what errors call it.
struct BatchPart {
  const HostArray* array;
  const char* what;
};
/// The arrays of a batch in the order of the step's inputs, from `latents` to `image_states`.
/// Throws an Error when the batch has an image condition that the step does not take, or has not
/// what it takes. The batch must outlive them.
std::vector<BatchPart> batch_parts(const data::Batch& batch, const BatchShapes& shapes);

}  // namespace kinema::training
