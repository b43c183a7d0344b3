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

/// The encoder or the decoder of a VAE on a device, or split over those of a mesh: parameters, and
/// programs for the sizes seen so far. Safe to use from several threads on one device; over a mesh,
/// from one at a time: devices that begin two programs in different orders wait for each other.
class VaeSide {
 public:
  enum class Kind { ENCODER, DECODER };
  using Load = std::function<std::vector<runtime::Array>(std::span<const nn::ParamSpec>)>;

  /// `load` is called when the side is first used, and when it is first used after release().
  /// `replicate`: every device holds all parameters, whatever the rules say.
  VaeSide(Kind kind, runtime::Devices devices, const vae::Config& config,
          const vae::Options& options, runtime::ProgramOptions program, Load load,
          bool replicate = false);

  /// Called with the result of each chunk, f32 [c, k, h, w].
  using Sink = std::function<void(HostArray piece)>;
  /// Runs over f32 [c, f, h, w]: its first frame, then `chunk` frames at a time. Frames that fill
  /// up the last chunk are dropped from its result.
  void run(const HostArray& input, int64_t chunk, const Sink& sink);

  /// Bytes that run would take of each device at its largest over an input of these dims, beside
  /// parameters that are there already; compiles the programs.
  int64_t memory_bytes(const Dims& input, int64_t chunk);

  /// Gives the parameters back, as soon as the runs that are under way end. Programs stay: they
  /// are small beside parameters and take seconds to compile.
  void release();

 private:
  using Params = std::shared_ptr<const std::vector<runtime::Array>>;

  struct Programs {
    std::unique_ptr<runtime::Program> first;
    std::vector<Shape> past;                   // what the first leaves
    std::map<int64_t, runtime::Program> next;  // by chunk
  };

  vae::Chunk build(std::span<const Tensor> params, Tensor input,
                   std::span<const Tensor> past) const;
  runtime::Program compile(const Shape& input, std::span<const Shape> past,
                           std::vector<Shape>* left) const;
  /// The programs for chunks of this shape (0 frames: the first only), and the parameters.
  struct Ready {
    Params params;
    const runtime::Program* first;
    const runtime::Program* next;
  };
  Ready compiled(const Dims& frame, int64_t chunk);  // with those that are there, or null
  Ready ready(const Dims& frame, int64_t chunk);
  /// A chunk on its way: result and past, and the input, which must outlive the run.
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

  std::mutex mutex_;                   // of what follows
  Params params_;                      // null when released; runs hold their own share
  std::map<Dims, Programs> programs_;  // by [c, h, w]; entries are never removed
};

}  // namespace kinema::encoders
