#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/networks/network.h"
#include "kinema/training/objective.h"
#include "kinema/verification/kinds.h"

/// Denoising networks in the graphs of cases.
namespace kinema::verification {

/// Outputs or other tensors of a graph, with their names in the case.
using Named = std::vector<std::pair<std::string, Tensor>>;

/// The options with weights and activations in bfloat16.
nn::ModelOptions in_bf16(nn::ModelOptions options);

/// The inputs of a network in a graph, with the shapes of the case. Cases of Wan have latents
/// `hidden_states` [b, c, f, h, w]; cases of SDXL `sample` [b, c, h, w]; cases of Flux tokens
/// `hidden_states` [b, s, 4 c] with their positions `img_ids` [s, 3], and timesteps in 0..1; cases
/// of Z-Image `x` [b, c, h, w], `t` [b] = 1 - sigma, and `cap_feats` [b, t, d] of `cap_lengths`
/// [b].
struct NetworkInputs {
  networks::Inputs inputs;
  Named named;
  int64_t rows = 0;  // of patches, if latents are tokens
  int64_t columns = 0;
  bool negated = false;  // the case's `output` is minus the prediction
};

/// A flow's loss on a case's tensors, and its inputs.
struct FlowLoss {
  Tensor text;  // the network's inputs
  Tensor control = {};
  training::FlowBatch flow;
  Tensor prediction;
  Tensor loss;
};

/// A network with its parameters in a graph.
class NetworkGraph : public CaseGraph {
 public:
  NetworkGraph(const Run& run, networks::Network network, const nn::ModelOptions& options,
               std::span<const nn::ParamSpec> specs, std::vector<pjrt::Buffer> values);
  /// With the parameters of these files, which must have exactly the network's names. Adapters are
  /// merged into the weights, or applied separately if the options have ranks for them.
  NetworkGraph(const Run& run, const networks::Network& network, const nn::ModelOptions& options,
               const model_files::Checkpoint& files,
               std::span<const weights::Adapter> adapters = {});
  /// The network of the files, or of the case's model.
  NetworkGraph(const Run& run, const nn::ModelOptions& options,
               const model_files::Checkpoint& files);
  NetworkGraph(const Run& run, const nn::ModelOptions& options)
      : NetworkGraph(run, options, model_files::Checkpoint::open(run.c.model())) {}

  /// The case's inputs `PREFIXNAME`. Unless `all` is set, `NAME` is used for a missing one.
  NetworkInputs given(const std::string& prefix = "", bool all = true);
  /// The network's prediction, with the shape of the case's latents.
  Tensor prediction(const NetworkInputs& given);
  /// Runs the network on the case's inputs: `output`, and those of the case's taps `tap.NAME` that
  /// the network has.
  Values predict();
  /// The case's `output` in the graph.
  Tensor network_output(const NetworkInputs& given);
  /// Only the output, for the same inputs.
  HostArray predicted(const std::string& prefix = "", bool all = true);

  /// The flow loss of the case's tensors `PREFIXlatents`, `PREFIXnoise`, `PREFIXtimestep` and
  /// `PREFIXencoder_hidden_states`.
  FlowLoss flow_loss(const std::string& prefix);
  /// Adds outputs `PREFIXprediction`, `PREFIXloss`, the norm of the parameters' gradients
  /// `PREFIXgrad_norm`, gradients `PREFIXgrad.PATH`, and the gradients of `others` with their
  /// names.
  void output_gradients(const std::string& prefix, Tensor prediction, Tensor loss,
                        const Named& others = {});

  networks::Network network;
  nn::ModelOptions options;
  std::vector<nn::ParamSpec> specs;
  std::vector<Tensor> params;
};

/// The sigma_min with which the case's `PREFIXsigma` [b] was computed from `PREFIXtimestep` [b].
double sigma_min_of(const Case& c, const std::string& prefix);

}  // namespace kinema::verification
