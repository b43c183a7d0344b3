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

/// A transformer of a pipeline whose parameters somebody else keeps: the folder's is not read.
struct LentTransformer {
  networks::Network network;
  int64_t expert = 0;  // 1: the low-noise one of two
};

/// The parameters of a lent expert.
using LentParameters = std::function<std::vector<const runtime::Array*>(int64_t expert)>;

/// One or two transformers of a pipeline, loaded when first asked for. The second drives the first
/// out of memory unless the device has room for both.
class Experts {
 public:
  /// Reads and checks the configurations; loads nothing yet. Over a mesh, each device will hold
  /// what the placement's rules lay on it.
  Experts(runtime::Devices devices, PipelineFolder folder, const nn::ModelOptions& options,
          std::span<const LentTransformer> lent = {});

  int64_t size() const { return folder_.has_two_experts() ? 2 : 1; }
  /// 0 for the only one or the one for high noise, 1 for low noise.
  int64_t at_timestep(float timestep) const;
  const networks::Network& network(int64_t expert) const {
    return networks_.at(static_cast<size_t>(expert));
  }
  /// As given, but for what sampling has no use for (dropout, rematerialisation), and placed on the
  /// devices.
  const nn::ModelOptions& options() const { return options_; }
  const PipelineFolder& folder() const { return folder_; }

  /// The expert's parameters on the devices, in the order of Architecture::parameters.
  std::vector<const runtime::Array*> parameters(int64_t expert);
  /// Whether the expert's parameters take no more memory than is taken: they are there, or those of
  /// the other expert make way.
  bool has_room(int64_t expert) const;
  /// What `parameters` gives for lent experts until the next call: arrays that the caller keeps, in
  /// the order, dtypes and placement of Architecture::parameters. They are asked for when an
  /// expert's turn comes, and need be there until the other's does.
  void lend(LentParameters parameters) { lent_ = std::move(parameters); }
  /// Gives the memory of what was loaded back; `parameters` loads it again.
  void release() { loaded_ = {}; }
  double load_seconds() const { return load_seconds_; }

 private:
  bool is_lent(int64_t expert) const { return is_lent_.at(static_cast<size_t>(expert)); }
  std::vector<const runtime::Array*> lent(int64_t expert) const;
  /// Lets go of the other expert where the devices have no room for both.
  void make_way(int64_t expert);

  runtime::Devices devices_;
  PipelineFolder folder_;
  nn::ModelOptions options_;
  std::vector<networks::Network> networks_;
  std::array<std::vector<runtime::Array>, 2> loaded_;
  std::array<bool, 2> is_lent_{};
  LentParameters lent_;
  double load_seconds_ = 0;
};

}  // namespace kinema::sample
