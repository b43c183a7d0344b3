#pragma once

#include "kinema/graph/ops.h"

/// Distributions that heads of a network give, over the last axis where they have classes. All
/// compute in F32 at least. Samples are a function of noise that is given.
namespace kinema::nn {

/// log(softmax(x)) over the last axis.
Tensor log_softmax(Tensor x);

/// Index (s32) [...] to one-hot rows [..., classes] of `dtype`; zeros for an index out of range.
Tensor one_hot(Tensor index, int64_t classes, DType dtype);

/// One of several classes, by logits [..., classes].
class Categorical {
 public:
  /// Probabilities are (1 - unimix) softmax(logits) + unimix / classes: none is ever zero.
  explicit Categorical(Tensor logits, double unimix = 0.0);

  Tensor probabilities() const { return probabilities_; }
  /// Their logarithms.
  Tensor log_probabilities() const { return log_probabilities_; }
  /// What samples are the largest of, with noise: the logits given, or with unimix the mixed ones.
  Tensor scores() const { return scores_; }
  int64_t classes() const { return probabilities_.dim(-1); }

  /// The most probable class, s32 [...].
  Tensor mode() const { return argmax(scores_, Axis(-1)); }
  /// A sample, s32 [...]: the first largest of logits + noise, where the noise is of a Gumbel
  /// distribution, -log(-log(uniform)). Without unimix the logits are those given, else mixed ones.
  Tensor sample(Tensor gumbel) const { return argmax(scores_ + gumbel, Axis(-1)); }
  /// The class as one-hot row, with the gradient of the probabilities: the straight-through
  /// estimator (arXiv:1308.3432).
  Tensor straight_through(Tensor index) const;

  /// log p(index) [...]; index s32 [...].
  Tensor log_prob(Tensor index) const;
  /// -sum p log p [...].
  Tensor entropy() const;
  /// sum p (log p - log q) [...].
  Tensor kl(const Categorical& q) const;

 private:
  Tensor scores_;
  Tensor log_probabilities_;
  Tensor probabilities_;
};

/// A normal distribution for each element.
class Normal {
 public:
  Normal(Tensor mean, Tensor stddev) : mean_(mean), stddev_(stddev) {}
  /// Mean tanh(x), standard deviation between two bounds: (most - least) sigmoid(y + 2) + least.
  /// Samples are not bounded.
  static Normal bounded(Tensor x, Tensor y, double least, double most);

  Tensor mean() const { return mean_; }
  Tensor stddev() const { return stddev_; }
  /// `noise` is standard normal.
  Tensor sample(Tensor noise) const { return mean_ + stddev_ * noise; }
  /// Both of every element.
  Tensor log_prob(Tensor x) const;
  Tensor entropy() const;
  /// The entropy for a standard deviation.
  static double entropy_of(double stddev);

 private:
  Tensor mean_;
  Tensor stddev_;
};

/// Yes or no, by a logit.
class Binary {
 public:
  explicit Binary(Tensor logit);
  Tensor logit() const { return logit_; }
  Tensor probability() const { return logistic(logit_); }
  /// Cross entropy to a target between 0 and 1.
  Tensor loss(Tensor target) const;

 private:
  Tensor logit_;
};

/// A number as the mean over fixed bins (arXiv:2301.04104), by logits [..., bins].
class TwoHot {
 public:
  /// `bins` F32 [bins], rising and symmetric around 0.
  TwoHot(Tensor logits, Tensor bins);

  /// The mean. Bins are summed in pairs from the middle outwards: equal logits give exactly 0.
  Tensor mean() const;
  /// Cross entropy to the target's encoding, of the shape of target [...].
  Tensor loss(Tensor target) const;
  /// target [...] as weights [..., bins] of the two bins next to it, by its distance to each; all
  /// on the last bin where it is outside.
  static Tensor encode(Tensor target, Tensor bins);
  Tensor logits() const { return logits_; }

 private:
  Tensor logits_;
  Tensor bins_;
};

/// F32 [count]: symexp of equal steps from -20 to 0 and its mirror image. An odd count has one bin
/// at 0, an even one two.
Tensor symexp_bins(Graph& graph, int64_t count);

}  // namespace kinema::nn
