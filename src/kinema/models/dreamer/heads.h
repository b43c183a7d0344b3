#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/models/dreamer/vectors.h"
#include "kinema/nn/distributions.h"
#include "kinema/nn/mlp.h"
#include "kinema/nn/model_options.h"

namespace kinema::dreamer {

nn::Mlp mlp_of(const nn::Params& params, int64_t in, const HeadConfig& config);

/// A number, by two-hot encoding over symexp bins: reward and value.
class TwoHotHead {
 public:
  TwoHotHead(const nn::Params& params, int64_t in, const HeadConfig& config);

  /// x [..., in] -> of x's leading sizes.
  nn::TwoHot operator()(Tensor x, const nn::ModelOptions& options) const;

 private:
  int64_t bins_;
  nn::Mlp mlp_;
  nn::Dense logits_;
};

/// Whether an episode continues.
class BinaryHead {
 public:
  BinaryHead(const nn::Params& params, int64_t in, const HeadConfig& config);

  nn::Binary operator()(Tensor x, const nn::ModelOptions& options) const;

 private:
  nn::Mlp mlp_;
  nn::Dense logit_;
};

/// The distribution of one action, whose log probability and entropy are summed over its shape.
class ActionDistribution {
 public:
  ActionDistribution(Space space, nn::Categorical categorical)
      : space_(std::move(space)), categorical_(categorical) {}
  ActionDistribution(Space space, nn::Normal normal, const HeadConfig& bounds)
      : space_(std::move(space)), normal_(normal), least_(bounds.minstd), most_(bounds.maxstd) {}

  /// By Gumbel noise [..., classes] of integers, standard normal noise of floats.
  Tensor sample(Tensor noise) const;
  /// Of actions of the leading sizes and the space's shape -> of the leading sizes.
  Tensor log_prob(Tensor action) const;
  Tensor entropy() const;
  /// The least and the greatest entropy of one element.
  std::pair<double, double> entropy_bounds() const;
  const std::optional<nn::Categorical>& categorical() const { return categorical_; }
  const std::optional<nn::Normal>& normal() const { return normal_; }
  const Space& space() const { return space_; }

 private:
  Tensor summed(Tensor elements) const;

  Space space_;
  std::optional<nn::Categorical> categorical_;
  std::optional<nn::Normal> normal_;
  double least_ = 0;
  double most_ = 0;
};

using ActionDistributions = std::map<std::string, ActionDistribution>;

/// The policy: one MLP, and a linear layer or two for each action.
class PolicyHead {
 public:
  PolicyHead(const nn::Params& params, int64_t in, const AgentConfig& config);

  ActionDistributions operator()(Tensor x, const nn::ModelOptions& options) const;

 private:
  struct Output {
    std::string name;
    Space space;
    std::vector<nn::Dense> dense;  // logits, or mean and stddev
  };

  HeadConfig config_;
  nn::Mlp mlp_;
  std::vector<Output> outputs_;
};

/// How actions are drawn, by name: noise of the shape of the distribution, or the actions
/// themselves where they are given.
struct ActionDraws {
  TensorMap noise = {};
  TensorMap actions = {};
};
TensorMap sample(const ActionDistributions& policy, const ActionDraws& draws);

}  // namespace kinema::dreamer
