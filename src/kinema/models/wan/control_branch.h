#pragma once

#include <span>
#include <vector>

#include "kinema/models/wan/block_stack.h"
#include "kinema/nn/patch_embedding.h"

namespace kinema::wan {

/// VACE's control branch: blocks like the main ones that read control latents, and whose projected
/// results, the hints, are added to the main tokens after the blocks `vace_layers`. Source:
/// diffusers WanVACETransformer3DModel; arXiv:2503.07598.
///
///   c = proj_in(patch_embed(control)) + x        x: the main tokens before the first block
///   c = block_n(c),  hint_n = proj_out_n(c)
class ControlBranch {
 public:
  ControlBranch(const nn::Params& root, const TransformerConfig& config);

  /// The row of its blocks.
  static BlockRow row(const TransformerConfig& config);
  /// Opens the parameters of its blocks.
  static void open_blocks(const nn::Params& root, const TransformerConfig& config, bool stacked);

  /// The hints. `control`: [b, vace_in_channels, f', h, w], whose
  /// tokens may be fewer than those of `x` [b, s, d]: zeros follow. `scale`: [number of hints], the
  /// factor of each hint; empty: 1. `given.keys` are those of the branch's own blocks. Taps:
  /// `vace_patch_embed`, `vaceN`, `vace0.PART`, `hintN`.
  Residuals hints(Tensor x, Tensor control, Tensor scale, const BlockParameters& parameters,
                  const Conditioning& given, const NetworkTap& tap) const;

 private:
  nn::PatchEmbedding patch_;
  nn::Linear proj_in_;
};

}  // namespace kinema::wan
