#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/graph/graph.h"
#include "kinema/networks/network.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"
#include "kinema/sample/reuse.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// How the predictions with and without the prompt are computed.
enum class Guidance : uint8_t {
  NONE,           // the prediction with the prompt only
  DOUBLED_BATCH,  // classifier-free guidance batch: both in one batch
  TWO_PASSES,     // one after the other: less memory
};

/// A named input of a step.
struct StepInput {
  networks::NamedInput input;
  // Of Entry::TOKENS, whose latents have sizes of their own.
  int64_t rows = 0;
  int64_t columns = 0;

  /// Of its values, for latents [b, c, f, h, w].
  Dims dims(const Dims& latents) const;
  bool operator==(const StepInput&) const = default;
};

/// All parameters of a compiled denoising step: equal specs share one program.
struct StepSpec {
  networks::Network network;
  nn::ModelOptions options;
  Dims latents;  // [b, c, f, h, w]
  int64_t text_length = 512;
  bool text_fills = false;  // see networks::Inputs
  Guidance guidance = Guidance::DOUBLED_BATCH;
  /// Rescale the guided velocity towards the standard deviation of the prompt's velocity
  /// (guidance_rescale).
  bool rescale = false;
  /// The guided velocity is no longer than a multiple of the prompt's (guidance_normalization).
  bool normalizes = false;
  bool expand_timesteps = false;
  std::vector<StepInput> inputs = {};
  /// After the step the kept part of given frames is put back, at the noise level of the next step.
  bool keeps_part = false;
  /// Only the prompt's samples follow the pictures of ControlNets (GivenFiles::guess_mode).
  bool guess_mode = false;
  int64_t image_tokens = 0;  // CLIP's tokens of a video's images; 0: none
  Reuse reuse = Reuse::NOTHING;
  /// Text and image are inputs as the blocks' keys and values, computed by StepPrograms::keys.
  bool keys = false;
  /// What the sampler needs in addition to two data predictions.
  schedulers::StepForm form = {};

  bool operator==(const StepSpec&) const = default;
};

/// Inputs of the step after the parameters, in order. f32 but for `keys` and `block_sum`, which are
/// in activations_dtype.
///
///     x, previous, m1, m2   [b, c, f, h, w]   the sample and the solver's history, donated
///     m3                    [b, c, f, h, w]   of forms with a long history, which donate x and
///                                             previous only
///     text                  [b, t, d], or [2 b, t, d] (prompts, then negative prompts)
///     image                 [b, n, d]; absent without image tokens
///       or, with `keys`, in place of these two: keys and values of the text, then of the image
///                           [layers, b or 2 b, t or n, heads, head width]
///     pooled                [b or 2 b, pooled_dim]; absent where the network takes none
///     size_ids              [b or 2 b, size_ids]; absent where the network takes none
///     the spec's inputs     networks::NamedInput; in place of faces the result of
///     StepPrograms::faces,
///                           tokens [b or 2 b, f, t, d] in activations_dtype
///     control_scale         [control_layers]; absent where the network takes none
///     clean, clean_noise    [b, c, f, h, w]   with keeps_part: the latents of given frames, the
///                                             noise that they are mixed with, and
///     mask                  [1, 1, f, h, w]   1 where the sample is made, 0 where it is kept
///     kept, by reuse        BLOCKS: block_sum [b or 2 b, s, d]
///                           BRANCH: prompted, plain; VELOCITY: velocity, reference
///     noise                 [b, c, f, h, w]   of forms with noise
///     numbers               [27]              StepCoefficients, timestep, guidance scale, rescale,
///                                             weights of low and high frequencies (BRANCH), the
///                                             the network's guidance input, signal and noise of
///                                             the kept part, guidance normalization
///
/// Outputs: the next x, the corrected sample (the next `previous`), the data prediction (the next
/// m1; this step's m1 is the next m2), the velocity after guidance, u + g (c - u), and `finite`,
/// s32[]: 1 where every value of the next x is. Then, by reuse:
///
///     KEEP_BLOCKS: block_sum      KEEP_BRANCHES: prompted, plain      BRANCH: prompted
///     KEEP_VELOCITY: reference (this step's x), drift                 VELOCITY: drift
///
/// drift, f32[], is the root mean square distance of the next x from the reference.
struct StepGraph {
  Graph graph;
  std::vector<Tensor> outputs;
  int64_t parameters = 0;  // how many inputs are parameters
  /// Input index -> index of the output that reuses its buffer: x, previous and m2 are not needed
  /// after the step, and have the shapes of its results.
  std::map<int64_t, int64_t> donate;
  /// One per output.
  std::vector<Sharding> output_shardings;

  void set_emit(EmitOptions& options) const;
};

/// The part of a step's `numbers` that is not from the schedule.
struct StepNumbers {
  double guidance_scale = 1.0;
  double guidance_rescale = 0.0;
  GuidanceReuse weights = {};
  double embedded_guidance = 0.0;
  double guidance_normalization = 0.0;
};
HostArray step_numbers(const schedulers::Schedule& schedule, int64_t step,
                       const StepNumbers& others = {});

/// Distributes the transformer's batch in a step (prompts, and negative prompts if both are in one
/// batch) over the mesh: mesh::Placement::for_samples. contexts_text describes the sharding in one
/// line.
void lay_out_contexts(StepSpec& spec);
std::string contexts_text(const StepSpec& spec, const mesh::Placement& asked);

/// True if that batch divides over the mesh axes of `activation_batch`; check_contexts throws an
/// Error otherwise.
bool contexts_divide(const StepSpec& spec);
void check_contexts(const StepSpec& spec);

/// The graph of transformer, guidance and solver for one step.
std::unique_ptr<StepGraph> build_step(const StepSpec& spec);

/// The graph for the keys and values of a step with `keys`. Inputs after the parameters: text and
/// image as above; outputs in the order of the step's inputs.
std::unique_ptr<StepGraph> build_keys(const StepSpec& spec);

/// The graph for the tokens of faces. Input after the parameters: pictures [b, 3, f', S, S];
/// output: tokens of the prompts, then of the negative prompts, whose faces are black.
std::unique_ptr<StepGraph> build_faces(const StepSpec& spec);

/// Compiled steps by their spec. Two experts of equal shapes share one, as do all numbers of steps,
/// guidance scales and samplers of one form. ProgramOptions::saved applies to the first. All specs'
/// options are placed on the same devices. Beyond kMostPrograms the one that was not used for
/// longest is freed, so that requests of ever new sizes do not fill the memory; a request uses
/// fewer.
class StepPrograms {
 public:
  explicit StepPrograms(runtime::Devices devices, runtime::ProgramOptions options = {})
      : devices_(std::move(devices)), options_(std::move(options)) {
    runtime::split_over(devices_, options_);
  }

  static constexpr size_t kMostPrograms = 16;

  /// Valid until kMostPrograms others were requested.
  const runtime::Program& get(const StepSpec& spec);
  /// build_keys, compiled.
  const runtime::Program& keys(const StepSpec& spec);
  /// build_faces, compiled.
  const runtime::Program& faces(const StepSpec& spec);
  const runtime::Devices& devices() const { return devices_; }
  double compile_seconds() const { return compile_seconds_; }
  /// debug_sharding: the sharding of a step's inputs, and its collectives.
  std::vector<std::string> sharding_report(const StepSpec& spec);

 private:
  struct Compiled {
    StepSpec spec;
    runtime::Program program;
  };
  static const runtime::Program& of(std::list<Compiled>& known, const StepSpec& spec,
                                    const std::function<runtime::Program()>& make);
  runtime::Program compile(const StepGraph& made, runtime::ProgramOptions options);

  runtime::Devices devices_;
  runtime::ProgramOptions options_;
  std::list<Compiled> steps_, keys_,
      faces_;  // the last used first; references to programs are returned
  double compile_seconds_ = 0;
};

}  // namespace kinema::sample
