#include <map>

#include "kinema/core/error.h"
#include "kinema/nn/attention.h"

namespace kinema::nn {

AttentionKind attention_kind(const std::string& name) {
  static const std::map<std::string, AttentionKind> kinds{
      {"dot_product", AttentionKind::DOT_PRODUCT},
      {"flash", AttentionKind::FLASH},
      {"tokamax_flash", AttentionKind::FLASH},
      {"cudnn_flash_te", AttentionKind::FLASH},
      {"ring", AttentionKind::RING},
      {"tokamax_ring", AttentionKind::RING},
      {"tokamax_ring_custom", AttentionKind::RING},
      {"ulysses", AttentionKind::ULYSSES},
      {"ulysses_custom", AttentionKind::ULYSSES},
      {"ulysses_custom_fixed_m", AttentionKind::ULYSSES},
      {"ulysses_ring", AttentionKind::ULYSSES_RING},
      {"ulysses_ring_custom", AttentionKind::ULYSSES_RING},
      {"ulysses_ring_custom_fixed_m", AttentionKind::ULYSSES_RING},
      {"ulysses_ring_custom_bidir", AttentionKind::ULYSSES_RING},
  };
  const auto found = kinds.find(name);
  check(found != kinds.end(),
        "[attention] `{}` is not a kind of attention: dot_product, flash, ring, ulysses, "
        "ulysses_ring",
        name);
  return found->second;
}

}  // namespace kinema::nn
