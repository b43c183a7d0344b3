#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/models/vae/coder.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::encoders {

/// The encoder or the decoder of a VAE, on one device or sharded over a mesh: its parameters, and
/// programs for the sizes so far. Thread-safe on one device. Over a mesh, use one thread at a time:
/// devices that start two programs in different orders deadlock.
class VaeSide {
 public:
  enum class Kind { ENCODER, DECODER };
  using Load = std::function<std::vector<runtime::Array>(std::span<const nn::ParamSpec>)>;

  /// `load` is called at the first use and at the first use after release(). `replicate`: every
  /// device has all parameters, regardless of the sharding rules.
  VaeSide(Kind kind, runtime::Devices devices, const vae::Config& config,
          const vae::Options& options, runtime::ProgramOptions program, Load load,
          bool replicate = false);

  /// Called with the result of each chunk, f32 [c, k, h, w].
  using Sink = std::function<void(HostArray piece)>;
  /// Runs f32 [c, f, h, w]: the first frame, then `chunk` frames at a time. Frames that pad the
  /// last chunk are removed from the result.
  void run(const HostArray& input, int64_t chunk, const Sink& sink);

  /// Peak bytes of memory per device of a run with an input of these dims, in addition to loaded
  /// parameters; compiles the programs.
  int64_t memory_bytes(const Dims& input, int64_t chunk);

  /// Frees the parameters when current runs end. Programs stay: they are small and take seconds to
  /// compile.
  void release();

 private:
  using Params = std::shared_ptr<const std::vector<runtime::Array>>;

  struct Programs {
    std::unique_ptr<runtime::Program> first;
    std::vector<Shape> past;                   // shapes after the first chunk
    std::map<int64_t, runtime::Program> next;  // by chunk length
  };

  vae::Chunk build(std::span<const Tensor> params, Tensor input,
                   std::span<const Tensor> past) const;
  runtime::Program compile(const Shape& input, std::span<const Shape> past,
                           std::vector<Shape>* left) const;
  /// The programs for chunks of this shape (0 frames: the first chunk only), and the parameters.
  struct Ready {
    Params params;
    const runtime::Program* first;
    const runtime::Program* next;
  };
  Ready compiled(const Dims& frame, int64_t chunk);  // with the loaded parameters, or null
  Ready ready(const Dims& frame, int64_t chunk);
  /// A running chunk: result and past, and the input, which must outlive the run.
  struct Call {
    runtime::Array input;
    std::vector<runtime::Array> results;
  };
  Call call(const runtime::Program& program, const Params& params, const HostArray& input,
            std::span<const runtime::Array> past) const;

  Kind kind_;
  runtime::Devices devices_;
  vae::Config config_;
  vae::Options options_;
  runtime::ProgramOptions program_;
  Load load_;
  std::vector<nn::ParamSpec> specs_;

  std::mutex mutex_;                   // guards the members below
  Params params_;                      // null when released; a run shares ownership
  std::map<Dims, Programs> programs_;  // by [c, h, w]; entries are never removed
};

}  // namespace kinema::encoders
