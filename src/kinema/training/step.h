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
#include "kinema/training/adafactor.h"
#include "kinema/training/adamw.h"
#include "kinema/training/ema.h"
#include "kinema/training/objective.h"
#include "kinema/training/state.h"

namespace kinema::training {

/// What the network is given in a training step.
struct ModelInputs {
  Tensor noisy;        // F32 [b, c, f, h, w]
  Tensor timestep;     // F32 [b]
  Tensor text;         // [b, t, d]
  Tensor dropout_key;  // u32[2]
  // Empty where the model takes none.
  Tensor condition = {};     // [b, k, f, h, w], behind the channels of `noisy`
  Tensor image_states = {};  // [b, n, d]
  Tensor pooled = {};        // [b, p]: the prompt as one vector
  Tensor size_ids = {};      // [b, n]: the picture's sizes
  Tensor guidance = {};      // F32 [b] or [1]: the guidance scale, for networks that are told it
  Tensor given = {};         // pred [b]: the first frame of `noisy` is clean (TI2V)
};

/// A network: parameters in the dtypes and order of the specs -> prediction [b, c, f, h, w].
using Model = std::function<Tensor(std::span<const Tensor> params, const ModelInputs& inputs)>;

enum class OptimizerKind : uint8_t { ADAMW, ADAMW8BIT, ADAFACTOR };

struct StepOptions {
  OptimizerKind optimizer = OptimizerKind::ADAMW;
  /// Also of adamw8bit; its limits of gradients are those of any optimizer.
  AdamWOptions adamw;
  AdafactorOptions adafactor = {};
  ObjectiveOptions objective;
  StateDType state = StateDType::F32;
  /// Optimizer::memory.
  Memory optimizer_memory = Memory::DEVICE;
  /// The batch is worked through in this many equal parts, whose gradients are averaged in F32.
  int64_t accumulation = 1;
  /// An average of the parameters that is kept beside them.
  Ema ema = {};
  /// Noise, timesteps and weights come as inputs instead of being drawn.
  bool given_draw = false;
  /// A step whose loss or gradients are not finite leaves the state as it was.
  bool check_finite = true;
  /// Which devices of a mesh hold what.
  mesh::Placement place = {};
  /// The mesh axes that split a batch as it comes from the host (mesh::batch_axes).
  std::vector<std::string> batch_axes = {};
  /// Each device says whether its process was asked to stop, so that all end after the same step.
  bool asks_stop = false;
};

/// The rule that a step updates its parameters by.
std::shared_ptr<const Optimizer> optimizer_of(const StepOptions& options);

/// Global shapes of one batch.
struct BatchShapes {
  Shape latents;  // [b, c, f, h, w]
  Shape text;     // [b, t, d]
  // For models that make videos of images.
  std::optional<Shape> condition = {};     // [b, k, f, h, w]
  std::optional<Shape> image_states = {};  // [b, n, d]
  // For models that are told the prompt as one vector, and the picture's sizes.
  std::optional<Shape> pooled = {};    // [b, p]
  std::optional<Shape> size_ids = {};  // [b, n]
};

/// What a batch may have beside latents and text: its shape, its place in a data::Batch, and the
/// name of the step's input.
struct ExtraShape {
  std::optional<Shape> BatchShapes::*shape;
  HostArray data::Batch::*array;
  const char* input;
  const char* what;
  size_t rank;
};
inline constexpr std::array<ExtraShape, 4> kExtraShapes{
    {{&BatchShapes::condition, &data::Batch::condition, "condition", "image condition", 5},
     {&BatchShapes::image_states, &data::Batch::image_states, "image_states", "image states", 3},
     {&BatchShapes::pooled, &data::Batch::pooled, "pooled", "pooled text", 2},
     {&BatchShapes::size_ids, &data::Batch::size_ids, "size_ids", "sizes", 2}}};

/// x with its axis of samples where the rules put it, the others whole.
Tensor by_sample(Tensor x, size_t axis, const mesh::Placement& place);

/// One training step as a graph.
///
/// Inputs: the state (StateParts), then the run's key, the step number, the learning rate and the
/// batch.
///
///   frozen..., trained..., mu..., nu..., [ema...], count
///   key U32[2], step U32, learning_rate F32
///   latents, text, the extra parts that there are (kExtraShapes),
///   [empty_text [t, d], and empty_pooled [p] with pooled text, with caption dropout],
///   [expert U32 with a boundary and without given_draw],
///   [noise, timestep [b], weight [b] and, for networks that take it, guidance [b] with
///    given_draw; F32,
///    first_frame_given [b] where first frames are given: 1 or 0],
///   [stop U32 [devices], a number a device, with asks_stop]
///
/// Outputs: what changed of the state, in whose place the old one's memory is used, then `metrics`
/// F32[4], with asks_stop F32[5] (see Metric) and the gradients' sums of squares F32[n].
struct StepGraph {
  enum Metric : int64_t { LOSS, GRADIENT_NORM, MAX_ABS_GRADIENT, FINITE, STOP };

  std::unique_ptr<Graph> graph;
  std::vector<Tensor> outputs;
  /// Input index -> output index that takes over its buffer.
  std::map<int64_t, int64_t> donate;
  /// One per output.
  std::vector<Sharding> output_shardings;
  /// Those that wait on the host, as the inputs whose place they take.
  std::set<int64_t> host_outputs;
  /// Of the network's parameters, in the dtypes that it works in.
  std::vector<nn::ParamSpec> specs;
  StateParts<nn::ParamSpec> state;
  /// Parameter (and layer) behind each entry of the sums of squares.
  std::vector<std::string> gradient_names;

  /// Sets donations, output shardings and outputs on the host.
  void set_emit(EmitOptions& options) const;
};

/// `step` for devices of a platform. On a CPU optimizer state has no other memory to wait in.
StepOptions for_platform(StepOptions step, std::string_view platform);

/// Builds the step. The specs' dtypes are those the network works in; those that are not trained
/// are read only, without gradient. Throws an Error when the
/// batch does not divide into `accumulation` parts.
StepGraph build_step(std::span<const nn::ParamSpec> specs, const Model& model,
                     const BatchShapes& batch, const StepOptions& options);

/// One name per tensor, or per layer of a stacked one: `blocks.3.attn1.to_q.weight`.
std::vector<std::string> layer_names(std::span<const nn::ParamSpec> specs);

}  // namespace kinema::training
