#include "kinema/weights/harmless_parts.h"

#include <algorithm>
#include <vector>

namespace kinema::weights {
namespace {

/// A part of a file that a neighbouring model lacks or has in another size, and that it can be used
/// without.
struct HarmlessPart {
  std::string_view kind;
  std::vector<std::string_view> names;  // in a parameter's name, or of a key without a module
  bool of_other_size;                   // also if the model has it with another shape
};

const std::vector<HarmlessPart>& harmless_parts() {
  static const std::vector<HarmlessPart> parts{
      // Wan 2.2's I2V has no CLIP: files for Wan 2.1's I2V are used with it.
      {"image conditioning",
       {".attn2.add_k_proj", ".attn2.add_v_proj", ".attn2.norm_added_k",
        "condition_embedder.image_embedder."},
       false},
      // T2V, I2V and the others differ in the number of channels of the input.
      {"the patch embedding", {"patch_embedding"}, true},
      // OneTrainer's trained words.
      {"embeddings of words", {"bundle_emb."}, false},
  };
  return parts;
}

}  // namespace

std::string_view harmless_kind(std::string_view name, bool is_other_size) {
  for (const HarmlessPart& part : harmless_parts()) {
    if ((!is_other_size || part.of_other_size) &&
        std::ranges::any_of(part.names, [&](std::string_view text) {
          return name.find(text) != std::string_view::npos;
        })) {
      return part.kind;
    }
  }
  return "";
}

}  // namespace kinema::weights
