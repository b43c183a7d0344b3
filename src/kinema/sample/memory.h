#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kinema/encoders/autoencoder.h"
#include "kinema/runtime/array.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/sizes.h"

/// What a run takes, asked before it begins.
namespace kinema::sample {

/// Bytes that each device may still take: the first one's own figures, else (CPU) an equal share of
/// this machine's, less what the host will hold, and less an eleventh for the working space of
/// kernels, which compilers do not count.
int64_t available_bytes(const runtime::Devices& devices, int64_t held_by_host = 0);

/// Bytes of a transformer's parameters on each device, by the placement of the options; without
/// those that wait on the host, where the devices have a memory of their own.
int64_t parameter_bytes(const networks::Network& network, const nn::ModelOptions& options,
                        const runtime::Devices& devices);

/// How what a step takes beside its parameters grows with the tokens of a video, linear s +
/// square s^2: the square is attention's scores, where they are kept.
struct StepGrowth {
  double linear = 0;
  double square = 0;

  double bytes(double tokens) const { return (linear + square * tokens) * tokens; }
  /// Through two measurements.
  static StepGrowth through(double tokens_1, double bytes_1, double tokens_2, double bytes_2);
};

/// What a request takes at most, in bytes of each device (on a CPU of the process), by its parts
/// one after the other. What is loaded already counts as held.
struct MemoryUse {
  int64_t before = 0;  // the most so far: compiling takes memory too
  int64_t held = 0;    // before anything is loaded: the process, or what the device has
  int64_t text = 0;    // the text encoder
  int64_t kept = 0;    // of it, while what follows is made
  int64_t steps = 0;   // the transformer and a step
  int64_t decode = 0;  // the autoencoder, beside the transformer where that stays
  int64_t frames = 0;  // decoded, on a CPU

  int64_t predicted() const {
    return std::max(before, held + std::max(text, kept + std::max(steps, decode + frames)));
  }
};

/// Bytes of each device that a step takes at least, as its sizes say without a compiler: the
/// parameters, and what its blocks hold of the tokens of a batch without negative prompts.
int64_t least_step_bytes(const StepSpec& spec, const runtime::Devices& devices);

/// Throws an Error when that is more than `available` bytes. `loaded`: the parameters lie on the
/// device already.
void check_size_fits(const StepSpec& spec, const runtime::Devices& devices, const VideoSizes& sizes,
                     bool loaded, int64_t available);

/// Whether the step's program fits into `available` bytes. `loaded`: the parameters lie on the
/// device already.
bool step_fits(StepPrograms& programs, const StepSpec& spec, bool loaded, int64_t available);

/// Throws an Error naming how many frames of a video fit when the step takes more than `available`
/// bytes. `loaded`: the parameters lie on the device already. To say how many fit, the step is
/// compiled a few times more, for shorter videos.
void check_step_fits(StepPrograms& programs, const StepSpec& spec, const VideoSizes& sizes,
                     const encoders::LatentLayout& layout, bool loaded, int64_t available);

/// Throws an Error when decoding a video takes more than `available` bytes, which the transformer
/// has been given back for.
void check_decode_fits(const VideoSizes& sizes, int64_t bytes, int64_t available);

/// Throws an Error naming how many frames (or images) fit when the decoded ones of so many videos
/// take more than `available` bytes of the host's memory.
void check_frames_fit(int64_t videos, const VideoSizes& sizes, const encoders::LatentLayout& layout,
                      int64_t available);

}  // namespace kinema::sample
