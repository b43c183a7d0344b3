#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kinema/networks/network.h"
#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/sample/pipeline_folder.h"

namespace kinema::sample {

/// A transformer of a pipeline with parameters that another object owns; the folder's are not read.
struct SharedTransformer {
  networks::Network network;
  int64_t expert = 0;  // 1: the low-noise one of two
};

/// The parameters of a shared expert.
using SharedParameters = std::function<std::vector<const runtime::Array*>(int64_t expert)>;

/// The network with the folder's ControlNets attached. Throws an Error for a folder of two experts.
networks::Network with_controls(networks::Network network, const PipelineFolder& folder);

/// One or two transformers of a pipeline, loaded at first use. Loading one frees the other, unless
/// the devices have memory for both.
class Experts {
 public:
  /// Reads and checks the configurations, without loading weights. Over a mesh, the placement's
  /// rules shard the parameters.
  Experts(runtime::Devices devices, PipelineFolder folder, const nn::ModelOptions& options,
          std::span<const SharedTransformer> shared_transformers = {});

  int64_t size() const { return folder_.has_two_experts() ? 2 : 1; }
  /// 0 for the only or the high-noise expert, 1 for the low-noise one.
  int64_t at_timestep(float timestep) const;
  const networks::Network& network(int64_t expert) const {
    return networks_.at(static_cast<size_t>(expert));
  }
  /// The options without those that only matter in training (dropout, rematerialization), placed on
  /// the devices.
  const nn::ModelOptions& options() const { return options_; }
  const PipelineFolder& folder() const { return folder_; }

  /// The expert's parameters on the devices, in the order of Architecture::parameters.
  std::vector<const runtime::Array*> parameters(int64_t expert);
  /// True if using the expert needs no additional memory for parameters: they are loaded, or the
  /// other expert's would be freed.
  bool has_parameter_memory(int64_t expert) const;
  /// Sets the source of shared experts' parameters: arrays that the caller owns, in the order,
  /// dtypes and placement of Architecture::parameters. They are requested when an expert is needed,
  /// and must stay valid until the other one is.
  void share(SharedParameters parameters) { shared_parameters_ = std::move(parameters); }
  /// Loads an expert before its first step, through `together` if it is set: processes that share
  /// the devices then all throw if one could not read the weights, instead of waiting for it in a
  /// step.
  void prepare(int64_t expert);
  using Together = std::function<void(const std::function<void()>& work)>;
  void set_together(Together together) { together_ = std::move(together); }
  /// Frees the loaded parameters; `parameters` loads them again.
  void release() { loaded_ = {}; }
  double load_seconds() const { return load_seconds_; }

 private:
  std::filesystem::path path(int64_t expert) const {
    return expert == 0 ? folder_.transformer : folder_.transformer_2;
  }
  /// The files of each model of an expert's network: its own, then those of ControlNets.
  std::vector<std::filesystem::path> model_paths(int64_t expert) const;
  bool is_shared(int64_t expert) const { return is_shared_.at(static_cast<size_t>(expert)); }
  std::vector<const runtime::Array*> shared_parameters(int64_t expert) const;
  /// Frees the other expert if the devices do not have memory for both.
  void release_other(int64_t expert);

  runtime::Devices devices_;
  PipelineFolder folder_;
  nn::ModelOptions options_;
  std::vector<networks::Network> networks_;
  std::array<std::vector<runtime::Array>, 2> loaded_;
  std::array<bool, 2> is_shared_{};
  SharedParameters shared_parameters_;
  Together together_;
  double load_seconds_ = 0;
};

}  // namespace kinema::sample
