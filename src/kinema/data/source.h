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
  /// For models with image conditioning (encoders::image_condition, image_tokens); else without
  /// bytes.
  HostArray condition = {};     // f32 or bf16 [k, f, h, w]
  HostArray image_states = {};  // f32 or bf16 [n, d]
  // For models with pooled text, and with the picture's sizes; else without bytes.
  HostArray pooled = {};    // f32 or bf16 [p]
  HostArray size_ids = {};  // f32 [n]
  /// How much each latent counts in the loss (loss_weights.h); without bytes, all count 1.
  HostArray loss_weights = {};      // f32 [1, f, h, w]
  std::optional<int64_t> timestep;  // for evaluation sets with fixed timesteps
  std::string id;                   // for reports: `clip_03.mp4`, `shard.tfrec record 7`
};

/// Samples stacked along a new first axis.
struct Batch {
  HostArray latents;                // [b, c, f, h, w]
  HostArray encoder_hidden_states;  // [b, t, d]
  HostArray condition = {};         // [b, k, f, h, w], or no bytes
  HostArray image_states = {};      // [b, n, d], or no bytes
  HostArray pooled = {};            // [b, p], or no bytes
  HostArray size_ids = {};          // [b, n], or no bytes
  HostArray loss_weights = {};      // [b, 1, f, h, w], or no bytes
  std::vector<int64_t> timesteps;   // b of them, or none
  std::vector<std::string> ids;     // b of them
  /// If these are a part of a batch that several processes share: their indices in it, in order.
  std::vector<int64_t> rows = {};
};

/// An array of a sample: its name in stored samples and in messages, and its rank.
struct SamplePart {
  HostArray Sample::*of_sample;
  HostArray Batch::*of_batch;
  const char* name;
  const char* what;
  size_t rank;
  bool exact = false;  // stored as F32 for any dtype of the others
};
inline constexpr std::array<SamplePart, 7> kParts{
    {{&Sample::latents, &Batch::latents, "latents", "latents", 4},
     {&Sample::encoder_hidden_states, &Batch::encoder_hidden_states, "encoder_hidden_states",
      "text states", 2},
     {&Sample::condition, &Batch::condition, "condition", "image condition", 4},
     {&Sample::image_states, &Batch::image_states, "encoder_hidden_states_image", "image states",
      2},
     {&Sample::pooled, &Batch::pooled, "pooled", "pooled text", 1},
     {&Sample::size_ids, &Batch::size_ids, "size_ids", "sizes", 1, true},
     {&Sample::loss_weights, &Batch::loss_weights, "loss_weights", "loss weights", 4, true}}};
/// The optional parts.
inline constexpr std::span<const SamplePart> kExtraParts = std::span(kParts).subspan(2);

/// Bytes of a sample's arrays.
int64_t bytes_of(const Sample& sample);
/// The name of a sample's array that is not finite; empty: all are finite. Its arrays are F32.
std::string nonfinite_part(const Sample& sample);
/// Converts the sample to the dtype in which samples are stored.
void convert_to(DType dtype, Sample& sample);

/// A data set with an endless deterministic order.
///
/// `at(position)` is a pure function of the source's settings and the position: the sample's index,
/// its crop and flip, and the noise of synthetic samples. So a run resumes from a position only,
/// and several threads may prefetch (at() is thread-safe).
class Source {
 public:
  virtual ~Source() = default;
  /// Samples in one epoch.
  virtual int64_t size() const = 0;
  virtual Sample at(int64_t position) const = 0;
  /// One sample of each size that at() returns.
  virtual std::vector<Sample> examples() const {
    std::vector<Sample> out;
    out.push_back(at(0));
    return out;
  }
};

/// The index, in a data set of `size` samples, at `position` of the endless order: each epoch is a
/// separate permutation, chosen by (seed, epoch).
int64_t shuffled_index(uint64_t seed, int64_t position, int64_t size);

/// Stacks samples; throws an Error with the first one whose shape or dtype differs, or that has an
/// optional part unlike others.
Batch stack(std::vector<Sample> samples);

}  // namespace kinema::data
