#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kinema/encoders/autoencoder.h"
#include "kinema/runtime/array.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/sizes.h"

/// The memory of a run, known before it starts.
namespace kinema::sample {

/// Bytes of memory available per device: by the first device's own figures, or (CPU) an equal part
/// of the host's memory, less the memory that the host will use, and less an eleventh for kernels,
/// which compilers do not count.
int64_t available_bytes(const runtime::Devices& devices, int64_t held_by_host = 0);

/// Bytes of a transformer's parameters per device, for the placement of the options, without those
/// in host memory if the devices have separate memory.
int64_t parameter_bytes(const networks::Network& network, const nn::ModelOptions& options,
                        const runtime::Devices& devices);

/// The growth of a step's memory, without parameters, with the tokens of a video: linear s + square
/// s^2; the square is attention's scores, if they are stored.
struct StepGrowth {
  double linear = 0;
  double square = 0;

  double bytes(double tokens) const { return (linear + square * tokens) * tokens; }
  /// Fitted to two measurements.
  static StepGrowth through(double tokens_1, double bytes_1, double tokens_2, double bytes_2);
};

/// Peak memory of a request in bytes per device (on a CPU of the process), by phases one after the
/// other. Memory of values that are already loaded is in `held`.
struct MemoryUse {
  int64_t before = 0;  // peak so far: compilation needs memory too
  int64_t held = 0;    // before loading: of the process, or in use on the device
  int64_t text = 0;    // the text encoder
  int64_t kept = 0;    // the part of it that stays during later phases
  int64_t steps = 0;   // the transformer and a step
  int64_t decode = 0;  // the autoencoder, and the transformer if it stays
  int64_t frames = 0;  // decoded frames, on a CPU

  int64_t predicted() const {
    return std::max(before, held + std::max(text, kept + std::max(steps, decode + frames)));
  }
};

/// A lower bound of a step's bytes per device, from its sizes without compiling: the parameters,
/// and the blocks' values for the tokens of a batch without negative prompts.
int64_t least_step_bytes(const StepSpec& spec, const runtime::Devices& devices);

/// Throws an Error if that is more than `available` bytes. `loaded`: the parameters are on the
/// device already.
void check_size_fits(const StepSpec& spec, const runtime::Devices& devices, const VideoSizes& sizes,
                     bool loaded, int64_t available);

/// True if the step's program fits into `available` bytes. `loaded`: the parameters are on the
/// device already.
bool step_fits(StepPrograms& programs, const StepSpec& spec, bool loaded, int64_t available);

/// Throws an Error with the number of frames that fit if the step needs more than `available`
/// bytes. `loaded`: the parameters are on the device already. To find the number, the step is
/// compiled a few times for shorter videos.
void check_step_fits(StepPrograms& programs, const StepSpec& spec, const VideoSizes& sizes,
                     const encoders::LatentLayout& layout, bool loaded, int64_t available);

/// Throws an Error if decoding a video needs more than `available` bytes, after the transformer was
/// freed.
void check_decode_fits(const VideoSizes& sizes, int64_t bytes, int64_t available);

/// Throws an Error with the number of frames (or images) that fit if the decoded frames of `videos`
/// videos need more than `available` bytes of host memory.
void check_frames_fit(int64_t videos, const VideoSizes& sizes, const encoders::LatentLayout& layout,
                      int64_t available);

}  // namespace kinema::sample
