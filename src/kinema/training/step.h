#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/data/source.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/nn/params.h"
#include "kinema/optimizers/adafactor.h"
#include "kinema/optimizers/adamw.h"
#include "kinema/optimizers/came.h"
#include "kinema/optimizers/lion.h"
#include "kinema/optimizers/muon.h"
#include "kinema/optimizers/prodigy.h"
#include "kinema/optimizers/rate_groups.h"
#include "kinema/optimizers/schedule_free.h"
#include "kinema/training/ema.h"
#include "kinema/training/objective.h"
#include "kinema/training/state.h"

namespace kinema::training {

/// The network's inputs in a training step.
struct ModelInputs {
  Tensor noisy;        // F32 [b, c, f, h, w]
  Tensor timestep;     // F32 [b]
  Tensor text;         // [b, t, d]
  Tensor dropout_key;  // u32[2]
  // Empty if the model has no such input.
  Tensor condition = {};     // [b, k, f', h', w']: networks::Sizes::stored_input
  Tensor image_states = {};  // [b, n, d]
  Tensor pooled = {};        // [b, p]: the pooled text
  Tensor size_ids = {};      // [b, n]: the picture's sizes
  Tensor guidance = {};      // F32 [b] or [1]: the guidance scale, for networks with takes_guidance
  Tensor given = {};         // pred [b]: the first frame of `noisy` is clean (TI2V)
};

/// A network: parameters in the dtypes and order of the specs -> prediction [b, c, f, h, w].
using Model = std::function<Tensor(std::span<const Tensor> params, const ModelInputs& inputs)>;

enum class OptimizerKind : uint8_t {
  ADAMW,
  ADAMW8BIT,
  ADAFACTOR,
  LION,
  LION8BIT,
  CAME,
  PRODIGY,
  SCHEDULE_FREE,
  MUON
};

struct StepOptions {
  OptimizerKind optimizer = OptimizerKind::ADAMW;
  /// Also for adamw8bit; its gradient limits apply to any optimizer.
  optimizers::AdamWOptions adamw;
  optimizers::AdafactorOptions adafactor = {};
  optimizers::LionOptions lion = {};
  optimizers::CameOptions came = {};
  optimizers::ProdigyOptions prodigy = {};
  optimizers::ScheduleFreeOptions schedule_free = {};
  optimizers::MuonOptions muon = {};
  /// Parameters with learning rates of their own.
  std::vector<optimizers::RateGroup> rate_groups = {};
  ObjectiveOptions objective;
  StateDType state = StateDType::F32;
  /// Optimizer::memory.
  Memory optimizer_memory = Memory::DEVICE;
  /// Gradient accumulation: the batch is computed in this many equal parts, whose gradients are
  /// averaged in F32.
  int64_t accumulation = 1;
  /// An average of the parameters, in addition to them.
  Ema ema = {};
  /// Noise, timesteps and weights are inputs instead of being drawn.
  bool given_draw = false;
  /// A step with a non-finite loss or gradient leaves the state unchanged.
  bool check_finite = true;
  /// The sharding over a mesh.
  mesh::Placement place = {};
  /// The mesh axes over which a batch from the host is sharded (mesh::batch_axes).
  std::vector<std::string> batch_axes = {};
  /// Each device has an input for its process's stop request, so that all stop after the same step.
  bool exchanges_stop = false;
};

/// The optimizer of a step.
std::shared_ptr<const optimizers::Optimizer> make_optimizer(const StepOptions& options);

/// Global shapes of one batch.
struct BatchShapes {
  Shape latents;  // [b, c, f, h, w]
  Shape text;     // [b, t, d]
  // For models with image conditioning.
  std::optional<Shape> condition = {};     // [b, k, f', h', w']
  std::optional<Shape> image_states = {};  // [b, n, d]
  // For models that take pooled text, and the picture's sizes.
  std::optional<Shape> pooled = {};    // [b, p]
  std::optional<Shape> size_ids = {};  // [b, n]
  /// The weights of latents in the loss, which are not an input of the model.
  std::optional<Shape> loss_weights = {};  // F32 [b, 1, f, h, w]
};

/// An optional part of a batch: its shape, its member of data::Batch, and the name of the step's
/// input.
struct ExtraShape {
  std::optional<Shape> BatchShapes::*shape;
  HostArray data::Batch::*array;
  const char* input;
  const char* what;
  size_t rank;
};
inline constexpr std::array<ExtraShape, 5> kExtraShapes{
    {{&BatchShapes::condition, &data::Batch::condition, "condition", "image condition", 5},
     {&BatchShapes::image_states, &data::Batch::image_states, "image_states", "image states", 3},
     {&BatchShapes::pooled, &data::Batch::pooled, "pooled", "pooled text", 2},
     {&BatchShapes::size_ids, &data::Batch::size_ids, "size_ids", "sizes", 2},
     {&BatchShapes::loss_weights, &data::Batch::loss_weights, "loss_weights", "loss weights", 5}}};

/// x with its sample axis sharded by the rules, the other axes replicated.
Tensor by_sample(Tensor x, size_t axis, const mesh::Placement& place);

/// One training step as a graph.
///
/// Inputs: the state (StateParts), then the run's key, the step number, the learning rate and the
/// batch.
///
///   frozen..., trained..., mu..., nu..., [ema...], count
///   key U32[2], step U32, learning_rate F32
///   latents, text, the model's extra inputs (kExtraShapes),
///   [empty_text [t, d], and empty_pooled [p] with pooled text, with caption dropout],
///   [expert U32 with a boundary and without given_draw],
///   [noise, timestep [b], weight [b] and, for networks that take it, guidance [b] with
///    given_draw; F32,
///    first_frame_given [b] if first frames are given: 1 or 0],
///   [stop U32 [devices], one per device, with exchanges_stop]
///
/// Outputs: the updated state, in the old one's buffers, then `metrics` F32[4], F32[5] with
/// exchanges_stop (see Metric), one more at the end with an optimizer that has an estimate
/// (Optimizer::estimate), and the gradients' sums of squares F32[n].
struct StepGraph {
  enum Metric : int64_t { LOSS, GRADIENT_NORM, MAX_ABS_GRADIENT, FINITE, STOP };

  std::unique_ptr<Graph> graph;
  std::vector<Tensor> outputs;
  /// Input index -> index of the output that reuses its buffer.
  std::map<int64_t, int64_t> donate;
  /// One per output.
  std::vector<Sharding> output_shardings;
  /// Outputs in host memory, like the inputs that they replace.
  std::set<int64_t> host_outputs;
  /// Of the network's parameters, in the dtypes of computation.
  std::vector<nn::ParamSpec> specs;
  StateParts<nn::ParamSpec> state;
  /// The last metric is Optimizer::estimate.
  bool has_estimate = false;
  /// The parameter (and layer) of each entry of the sums of squares.
  std::vector<std::string> gradient_names;

  /// Sets donations, output shardings and outputs in host memory.
  void set_emit(EmitOptions& options) const;
};

/// `step` for devices of a platform. On a CPU, optimizer state is always in device memory.
StepOptions for_platform(StepOptions step, std::string_view platform);

/// Builds the step. The specs have the dtypes of computation; frozen parameters are read only,
/// without gradient. Throws an Error if the batch does not divide into `accumulation` parts.
StepGraph build_step(std::span<const nn::ParamSpec> specs, const Model& model,
                     const BatchShapes& batch, const StepOptions& options);

/// One name per tensor, or per layer of a stacked one: `blocks.3.attn1.to_q.weight`.
std::vector<std::string> layer_names(std::span<const nn::ParamSpec> specs);

}  // namespace kinema::training
