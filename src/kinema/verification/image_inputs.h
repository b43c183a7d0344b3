#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/networks/network.h"
#include "kinema/verification/case.h"

namespace kinema::verification {

/// The inputs of a network that makes images, as cases of Flux and SDXL write them, in a graph.
///
/// Cases of Flux have tokens [b, s, 4 c] with their positions, and timesteps in 0..1.
class ImageInputs {
 public:
  /// `with` begins the names of tensors that are there twice (`bf16.`); empty: none.
  ImageInputs(Graph& graph, const Case& c, const networks::Sizes& sizes,
              const std::string& with = "");

  const networks::Inputs& inputs() const { return inputs_; }
  /// The values of the graph's inputs, in order.
  const std::vector<HostArray>& arguments() const { return arguments_; }
  /// The input that is differentiated by, under its name in the case: `hidden_states`.
  const std::vector<std::pair<std::string, Tensor>>& named() const { return named_; }
  /// Latents [b, c, 1, h, w] as the case writes them.
  Tensor as_written(Tensor latents) const;

 private:
  Tensor input(const std::string& name);
  Tensor unpacked(Tensor tokens) const;

  Graph& graph_;
  const Case& case_;
  networks::Sizes sizes_;
  std::string with_;
  bool packed_ = false;
  int64_t rows_ = 0;     // of patches
  int64_t columns_ = 0;  // of patches
  std::vector<HostArray> arguments_;
  std::vector<std::pair<std::string, Tensor>> named_;
  networks::Inputs inputs_;
};

}  // namespace kinema::verification
