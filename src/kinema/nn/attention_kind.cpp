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

std::string_view name_of(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::DOT_PRODUCT:
      return "dot_product";
    case AttentionKind::FLASH:
      return "flash";
    case AttentionKind::RING:
      return "ring";
    case AttentionKind::ULYSSES:
      return "ulysses";
    case AttentionKind::ULYSSES_RING:
      return "ulysses_ring";
  }
  fail("[attention] unknown kind {}", static_cast<int>(kind));
}

}  // namespace kinema::nn
