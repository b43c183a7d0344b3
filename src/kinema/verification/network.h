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

/// Outputs, or other tensors of a graph, by their names in the case.
using Named = std::vector<std::pair<std::string, Tensor>>;

/// The options with weights and activations in bfloat16.
nn::ModelOptions in_bf16(nn::ModelOptions options);

/// The inputs of a network, as cases write them, in a graph. Cases of Wan have latents
/// `hidden_states` [b, c, f, h, w]; cases of SDXL `sample` [b, c, h, w]; cases of Flux tokens
/// `hidden_states` [b, s, 4 c] with their positions `img_ids` [s, 3], and timesteps in 0..1.
struct NetworkInputs {
  networks::Inputs inputs;
  Named named;
  int64_t rows = 0;  // of patches, where latents are tokens
  int64_t columns = 0;
};

/// What a flow's loss on tensors of a case is made of.
struct FlowLoss {
  Tensor text;  // the input
  training::FlowBatch flow;
  Tensor prediction;
  Tensor loss;
};

/// A network with its parameters in a graph.
class NetworkGraph : public CaseGraph {
 public:
  NetworkGraph(const Run& run, networks::Network network, const nn::ModelOptions& options,
               std::span<const nn::ParamSpec> specs, std::vector<pjrt::Buffer> values);
  /// With the parameters in these files, which must be exactly the network's. What adapters add is
  /// merged into the weights, or kept apart where the options have ranks for it.
  NetworkGraph(const Run& run, const networks::Network& network, const nn::ModelOptions& options,
               const weights::Checkpoint& files, std::span<const weights::Adapter> adapters = {});
  /// The network that the files say; or that of the case's model.
  NetworkGraph(const Run& run, const nn::ModelOptions& options, const weights::Checkpoint& files);
  NetworkGraph(const Run& run, const nn::ModelOptions& options)
      : NetworkGraph(run, options, weights::Checkpoint::open(run.c.model())) {}

  /// The case's inputs `PREFIXNAME`. Unless all must be there, `NAME` stands for a missing one.
  NetworkInputs given(const std::string& prefix = "", bool all = true);
  /// What the network predicts, as the case writes latents.
  Tensor prediction(const NetworkInputs& given);
  /// Runs it on the case's inputs: `output`, and the case's taps `tap.NAME` that it offers.
  Values predict();
  /// The output alone, of the same inputs.
  HostArray predicted(const std::string& prefix = "", bool all = true);

  /// The loss of a flow on tensors `PREFIXlatents`, `PREFIXnoise`, `PREFIXtimestep` and
  /// `PREFIXencoder_hidden_states` of the case.
  FlowLoss flow_loss(const std::string& prefix);
  /// Outputs `PREFIXprediction`, `PREFIXloss`, the norm of the parameters' gradients
  /// `PREFIXgrad_norm`, gradients `PREFIXgrad.PATH`, and those of other tensors under their names.
  void output_gradients(const std::string& prefix, Tensor prediction, Tensor loss,
                        const Named& others = {});

  networks::Network network;
  nn::ModelOptions options;
  std::vector<nn::ParamSpec> specs;
  std::vector<Tensor> params;
};

/// The sigma_min with which the case's `PREFIXsigma` [b] was made from `PREFIXtimestep` [b].
double sigma_min_of(const Case& c, const std::string& prefix);

}  // namespace kinema::verification
