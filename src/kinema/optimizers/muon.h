#pragma once

#include <cstdint>
#include <memory>

#include "kinema/optimizers/adamw.h"
#include "kinema/optimizers/optimizer.h"

namespace kinema::optimizers {

/// The factor of the learning rate for a matrix [m, n].
enum class MuonRate : uint8_t {
  LIKE_ADAMW,  // 0.2 sqrt(max(m, n)): updates have the RMS of AdamW's, whose rates apply
  ORIGINAL,    // sqrt(max(1, m / n))
};

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  /// Newton-Schulz iterations.
  int64_t iterations = 5;
  MuonRate rate = MuonRate::LIKE_ADAMW;
  double weight_decay = 0.0;
  /// Of tensors with one axis.
  AdamWOptions adamw = {};
};

/// Muon (Keller Jordan 2024, kellerjordan.github.io/posts/muon) as torch.optim.Muon of torch 2.15:
/// the momentum of a matrix with its singular values brought near 1.
///
///   b = momentum b + (1 - momentum) g
///   u = (1 - momentum) g + momentum b with nesterov, else b
///   X = u / |u|, transposed if that makes it wide; `iterations` times:
///     A = X X^T,  X = 3.4445 X + (-4.7750 A + 2.0315 A A) X
///   p -= rate (weight_decay p + factor X)
///
/// The iterations are in BF16 with F32 sums, the rest in F32. Filters are matrices of their first
/// axis and the others. Tensors with one axis are updated by AdamW with the same rate. b has the
/// parameter's shape and dtype.
std::shared_ptr<const Optimizer> muon(const MuonOptions& options, Memory memory = Memory::DEVICE);

}  // namespace kinema::optimizers
