// Any key: nothing, or modules that their original name leads back to.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kinema/weights/family.h"
#include "kinema/weights/lora_key.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const kinema::weights::Family& family : kinema::weights::families()) {
    const auto key = kinema::weights::read_lora_key(text, *family.names);
    if (!key || key->member > kinema::weights::LoraMember::SECOND_NETWORK) {
      continue;
    }
    for (const kinema::weights::Piece& piece : key->pieces) {
      const auto original = kinema::weights::original_module(*family.names, piece.name);
      if (!original) {
        continue;  // beyond what the released model has of layers
      }
      const auto back = kinema::weights::read_module(*family.names, original->name);
      if (!back || std::ranges::find(back->pieces, piece.name, &kinema::weights::Piece::name) ==
                       back->pieces.end()) {
        std::abort();
      }
    }
  }
  return 0;
}
