#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::data {

/// One training sample in host memory.
struct Sample {
  HostArray latents;                // f32 or bf16 [c, f, h, w]
  HostArray encoder_hidden_states;  // f32 or bf16 [t, d]
  /// For models that make videos of images (encoders::image_condition, image_tokens); no bytes
  /// where there is none.
  HostArray condition = {};     // f32 or bf16 [k, f, h, w]
  HostArray image_states = {};  // f32 or bf16 [n, d]
  // For models that are told the prompt as one vector, and the picture's sizes; no bytes where
  // there is none.
  HostArray pooled = {};            // f32 or bf16 [p]
  HostArray size_ids = {};          // f32 [n]
  std::optional<int64_t> timestep;  // evaluation sets that fix it
  std::string id;                   // `clip_03.mp4`, `shard.tfrec record 7`: for reports
};

/// Samples stacked along a new first axis.
struct Batch {
  HostArray latents;                // [b, c, f, h, w]
  HostArray encoder_hidden_states;  // [b, t, d]
  HostArray condition = {};         // [b, k, f, h, w], or no bytes
  HostArray image_states = {};      // [b, n, d], or no bytes
  HostArray pooled = {};            // [b, p], or no bytes
  HostArray size_ids = {};          // [b, n], or no bytes
  std::vector<int64_t> timesteps;   // b of them, or none
  std::vector<std::string> ids;     // b of them
  /// Where these are some of a batch that several processes share: which, in order.
  std::vector<int64_t> rows = {};
};

/// An array of a sample: its name where samples are kept, what messages call it, and how many axes
/// it has.
struct SamplePart {
  HostArray Sample::*of_sample;
  HostArray Batch::*of_batch;
  const char* name;
  const char* what;
  size_t rank;
  bool exact = false;  // kept in F32 whatever the others are kept in
};
inline constexpr std::array<SamplePart, 6> kParts{
    {{&Sample::latents, &Batch::latents, "latents", "latents", 4},
     {&Sample::encoder_hidden_states, &Batch::encoder_hidden_states, "encoder_hidden_states",
      "text states", 2},
     {&Sample::condition, &Batch::condition, "condition", "image condition", 4},
     {&Sample::image_states, &Batch::image_states, "encoder_hidden_states_image", "image states",
      2},
     {&Sample::pooled, &Batch::pooled, "pooled", "pooled text", 1},
     {&Sample::size_ids, &Batch::size_ids, "size_ids", "sizes", 1, true}}};
/// Those that not every sample has.
inline constexpr std::span<const SamplePart> kExtraParts = std::span(kParts).subspan(2);

/// Bytes of a sample's arrays.
int64_t bytes_of(const Sample& sample);
/// What of a sample is not finite, as messages call it; empty: all is. Its arrays are F32.
std::string not_finite(const Sample& sample);
/// The sample in the dtype that samples are kept in.
void convert_to(DType dtype, Sample& sample);

/// A data set with an endless deterministic order.
///
/// `at(position)` is a pure function of the source's settings and the position: which sample it is,
/// how it was cropped or flipped, and its noise if it is synthetic. So a run resumes by position
/// alone, and several threads may read ahead (at() is safe to call from many threads).
class Source {
 public:
  virtual ~Source() = default;
  /// Samples in one epoch.
  virtual int64_t size() const = 0;
  virtual Sample at(int64_t position) const = 0;
  /// A sample of each size that at() gives.
  virtual std::vector<Sample> examples() const {
    std::vector<Sample> out;
    out.push_back(at(0));
    return out;
  }
};

/// The index into a data set of `size` samples that stands at `position` of the endless order: each
/// epoch is its own permutation, chosen by (seed, epoch).
int64_t shuffled_index(uint64_t seed, int64_t position, int64_t size);

/// Stacks samples; throws an Error that names the first one whose shape or type differs, or that
/// has a condition where others have none.
Batch stack(std::vector<Sample> samples);

}  // namespace kinema::data
