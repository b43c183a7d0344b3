#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/core/shape.h"
#include "kinema/nn/activation.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/running_norm.h"

namespace kinema::dreamer {

/// The dtype and shape of one entry of an observation or an action.
struct Space {
  DType dtype = DType::F32;
  Dims shape = {};
  /// > 0: integers 0 .. classes - 1, which become one-hot vectors.
  int64_t classes = 0;

  bool is_discrete() const { return classes > 0; }
  /// Pixels [rows, columns, channels], U8.
  bool is_image() const { return shape.size() == 3; }
  int64_t elements() const;
  /// The number of its features as a vector.
  int64_t features() const { return elements() * (is_discrete() ? classes : 1); }
  bool operator==(const Space&) const = default;
};

/// Spaces with their names, in any order.
using Spaces = std::vector<std::pair<std::string, Space>>;

/// The same, sorted by name: the order in which vectors are concatenated.
Spaces sorted_by_name(Spaces spaces);
/// The number of features of all spaces as one vector.
int64_t features(const Spaces& spaces);

/// The recurrent state-space model.
struct RssmConfig {
  int64_t deter = 8192;   // size of the deterministic state
  int64_t hidden = 1024;  // units of its layers
  int64_t stoch = 32;     // categorical variables of the stochastic state
  int64_t classes = 64;   // classes of each
  nn::Activation act = nn::Activation::SILU;
  nn::ScaleNorm::How norm = {};
  double unimix = 0.01;
  double outscale = 1.0;
  int64_t imglayers = 2;  // of the prior
  int64_t obslayers = 1;  // of the posterior
  int64_t dynlayers = 1;  // of the recurrent core
  /// The posterior sees tokens only, not the deterministic state.
  bool absolute = false;
  int64_t blocks = 8;  // of the core's linear layers
  /// The minimum of each KL loss.
  double free_nats = 1.0;

  int64_t features() const { return deter + stoch * classes; }
};

/// Encoder and decoder, which differ in the last lines.
struct CoderConfig {
  int64_t depth = 64;  // channels are multiples of it
  std::vector<int64_t> mults = {2, 3, 4, 4};
  int64_t layers = 3;  // of vectors
  int64_t units = 1024;
  nn::Activation act = nn::Activation::SILU;
  nn::ScaleNorm::How norm = {};
  /// Compresses floats with symlog: observations, or targets of the decoder.
  bool symlog = true;
  /// The convolution next to the pixels keeps the resolution.
  bool outer = false;
  int64_t kernel = 5;
  /// Convolutions of stride 2 instead of pooling and repeated pixels.
  bool strided = false;
  double outscale = 1.0;  // decoder
  int64_t bspace = 8;     // decoder: blocks of the layer from deter to pixels

  /// The number of times that the resolution is halved.
  int64_t halvings() const { return static_cast<int64_t>(mults.size()) - (outer ? 1 : 0); }
};

/// A head: an MLP and a linear layer.
struct HeadConfig {
  int64_t layers = 1;
  int64_t units = 1024;
  nn::Activation act = nn::Activation::SILU;
  nn::ScaleNorm::How norm = {};
  double outscale = 1.0;
  int64_t bins = 255;   // two-hot heads
  double minstd = 0.1;  // continuous actions
  double maxstd = 1.0;
};

/// Returns and losses of actor and critic.
struct ReturnConfig {
  /// Returns and advantages use the slow critic's values.
  bool slowtar = false;
  double lam = 0.95;
  double actent = 3e-4;  // entropy's weight
  double slowreg = 1.0;  // weight of the loss to the slow critic's prediction
};

/// The agent of DreamerV3 (arXiv:2301.04104), under the names of its configuration; the defaults
/// are those of the original's size200m.
struct AgentConfig {
  Spaces observations;  // without reward, is_first, is_last, is_terminal
  Spaces actions;
  RssmConfig rssm;
  CoderConfig encoder;
  CoderConfig decoder;
  HeadConfig reward = {.outscale = 0.0};
  HeadConfig continuation;
  HeadConfig policy = {.layers = 3, .outscale = 0.01};
  HeadConfig value = {.layers = 3, .outscale = 0.0};

  int64_t imag_last = 0;  // number of last states of a sequence where rollouts start; 0: all
  int64_t imag_length = 15;
  int64_t horizon = 333;
  /// The continuation head learns the probability times the discount.
  bool contdisc = true;
  ReturnConfig imag_loss;
  ReturnConfig repl_loss;
  double slow_rate = 0.02;
  int64_t slow_every = 1;
  nn::RunningNorm::Options retnorm = {
      .kind = nn::RunningNorm::Kind::PERCENTILES, .limit = 1.0, .debias = false};
  nn::RunningNorm::Options valnorm;
  nn::RunningNorm::Options advnorm;
  /// Gradients of actor and critic reach the world model at the first state of a rollout.
  bool ac_grads = false;
  /// The reward head's and the replayed values' gradients reach the world model.
  bool reward_grad = true;
  bool repval_loss = true;
  bool repval_grad = true;
  /// Weight of each loss: `rec` of every observation, or one by its name; rew, con, dyn, rep,
  /// policy, value, repval.
  std::map<std::string, double> loss_scales = {{"rec", 1.0},   {"rew", 1.0},   {"con", 1.0},
                                               {"dyn", 1.0},   {"rep", 0.1},   {"policy", 1.0},
                                               {"value", 1.0}, {"repval", 0.3}};

  double discount() const { return 1.0 - 1.0 / static_cast<double>(horizon); }
  double loss_scale(const std::string& name) const;
};

/// Throws an Error naming the key when a size is out of range or the sizes do not fit together.
void validate(const AgentConfig& config);

}  // namespace kinema::dreamer
