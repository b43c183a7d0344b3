#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/kernels/settings.h"
#include "kinema/nn/quantized.h"

namespace kinema::nn {

enum class AttentionKind {
  DOT_PRODUCT,  // the scores of all pairs at once
  FLASH,        // in blocks; with a sharded sequence, every device gathers all keys and values
  RING,         // keys and values are passed around the devices that share the sequence
  ULYSSES,  // all-to-all: the devices exchange their part of the sequence for a part of the heads
  ULYSSES_RING,  // ulysses within groups of `ulysses_shards` neighbours, ring across the groups
};

/// The kind for the value of a configuration's `attention`. Names of particular kernels
/// (tokamax_flash, ulysses_custom, ...) give the kind that they compute. Throws an Error that lists
/// the kinds for an unknown name.
AttentionKind attention_kind(const std::string& name);
/// `flash`, `ulysses_ring`, ...
std::string_view name_of(AttentionKind kind);

/// Mesh axes over which the axes of q [b, s, n, d] are sharded, major first. Sizes need not divide.
struct AttentionAxes {
  MeshAxes mesh = {};  // of the whole program; empty = one device
  std::vector<std::string> batch = {};
  std::vector<std::string> sequence = {};
  std::vector<std::string> heads = {};
  bool operator==(const AttentionAxes&) const = default;
};

struct AttentionOptions {
  AttentionKind kind = AttentionKind::DOT_PRODUCT;
  Precision precision = Precision::DEFAULT;
  /// Factor of the scores; 0 means 1 / sqrt(d).
  double scale = 0.0;
  /// Added to the scaled scores if not empty: f32, broadcasts to [b, n, s, t]. DOT_PRODUCT and, on
  /// one device, FLASH only.
  Tensor bias = {};
  AttentionAxes axes = {};
  /// Keys and values are short and not sharded along the sequence (text): every kind then computes
  /// FLASH.
  bool replicated_keys = false;
  kernels::FlashBlockSizes blocks = {};
  /// See FlashAttentionSettings.
  bool base2 = true;
  /// With fewer queries or keys than this, DOT_PRODUCT is used. RING is not replaced.
  int64_t min_length = 0;
  /// Positions that only pad blocks or devices are masked. If false, they may act as keys with a
  /// score of 0.
  bool mask_padding = true;
  /// DOT_PRODUCT: heads stay a separate axis; if false, they are folded into the batch.
  bool split_heads = true;
  /// ULYSSES_RING: the number of devices that exchange heads; divides the devices along the
  /// sequence.
  int64_t ulysses_shards = -1;
  /// ULYSSES, ULYSSES_RING: heads are exchanged in this many groups, so that one group is
  /// transferred while another is computed.
  int64_t ulysses_chunks = 1;
  /// DOT_PRODUCT: quantization of its two products. The kernels of the other kinds are not
  /// quantized.
  std::optional<QuantizedProduct> quantized = {};
  /// For programs that are not differentiated: the norm and rotation of queries and keys are passed
  /// to the target's kernels as one fused operation (norm_and_rotate in rope.h).
  bool fused_rotation = false;
  bool operator==(const AttentionOptions&) const = default;
};

/// Throws an Error with the remedy if the options do not fit this number of queries and keys: block
/// sizes out of range, ulysses_shards or ulysses_chunks that do not divide. Call it before a graph
/// is built.
void check_attention(const AttentionOptions& options, int64_t queries, int64_t keys);

/// softmax(scale q k^T + bias) v for each head, softmax in f32 (f64 for f64).
///
/// q [b, s, n, d], k and v [b, t, n, d] -> [b, s, n, d] in q's dtype. Throws an Error with the
/// shapes, or with the option and its remedy, if they do not fit.
Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options);

}  // namespace kinema::nn
