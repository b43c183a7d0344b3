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
  DOT_PRODUCT,   // the scores of all pairs at once
  FLASH,         // in blocks; where the sequence is split, every device gets all keys and values
  RING,          // keys and values go round the devices that share the sequence
  ULYSSES,       // these devices exchange the sequence's split for one of the heads
  ULYSSES_RING,  // ulysses within neighbouring groups of `ulysses_shards`, ring across them
};

/// The kind of a configuration's `attention`. Names of particular kernels (tokamax_flash,
/// ulysses_custom, ...) stand for the kind that they compute. Throws an Error naming the kinds for
/// another word.
AttentionKind attention_kind(const std::string& name);
/// `flash`, `ulysses_ring`, ...
std::string_view name_of(AttentionKind kind);

/// Mesh axes that split the axes of q [b, s, n, d], major first. Sizes need not divide.
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
  /// Factor of the scores; 0 stands for 1 / sqrt(d).
  double scale = 0.0;
  /// Added to the scaled scores where given: f32, broadcasts to [b, n, s, t]. DOT_PRODUCT and, on
  /// one device, FLASH only.
  Tensor bias = {};
  AttentionAxes axes = {};
  /// Keys and values are short and not split along the sequence (text): every kind then works as
  /// FLASH.
  bool whole_keys = false;
  kernels::FlashBlockSizes blocks = {};
  /// As FlashAttentionSettings has it.
  bool base2 = true;
  /// Where queries or keys are fewer, DOT_PRODUCT is used. RING is not replaced.
  int64_t min_length = 0;
  /// Positions that only fill up blocks or devices do not count as keys. Without, they may: with a
  /// score of 0.
  bool mask_padding = true;
  /// DOT_PRODUCT: heads stay an axis of their own, or are folded into the batch.
  bool split_heads = true;
  /// ULYSSES_RING: how many devices exchange heads; divides the devices along the sequence.
  int64_t ulysses_shards = -1;
  /// ULYSSES, ULYSSES_RING: heads are exchanged in this many groups, so that one group is on its
  /// way while another is computed.
  int64_t ulysses_chunks = 1;
  /// DOT_PRODUCT: its two products are done so. Kernels of the other kinds are not looked into.
  std::optional<QuantizedProduct> quantized = {};
  /// For programs that are not differentiated: what is done to queries and keys is handed to the
  /// target's kernels whole (normed_rotation in rope.h).
  bool fused_rotation = false;
  bool operator==(const AttentionOptions&) const = default;
};

/// Throws an Error with the remedy when attention of this many queries and keys is more than the
/// options allow: block sizes out of range, ulysses_shards or ulysses_chunks that do not fit. For
/// use before a graph is built.
void check_attention(const AttentionOptions& options, int64_t queries, int64_t keys);

/// softmax(scale q k^T + bias) v for each head, softmax in f32 (f64 for f64).
///
/// q [b, s, n, d], k and v [b, t, n, d] -> [b, s, n, d] in q's dtype. Throws an Error naming the
/// shapes, or the option with its remedy, when they do not fit.
Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options);

}  // namespace kinema::nn
