// Any key: nothing, or modules that their original name leads back to.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kinema/model_files/family.h"
#include "kinema/weights/lora_key.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const kinema::model_files::Family& family : kinema::model_files::families()) {
    const auto key = kinema::weights::read_lora_key(text, *family.names);
    if (!key || key->member > kinema::weights::LoraMember::SECOND_NETWORK) {
      continue;
    }
    for (const kinema::model_files::Piece& piece : key->pieces) {
      const auto original = kinema::model_files::original_module(*family.names, piece.name);
      if (!original) {
        continue;  // beyond what the released model has of layers
      }
      const auto back = kinema::model_files::read_module(*family.names, original->name);
      if (!back || std::ranges::find(back->pieces, piece.name, &kinema::model_files::Piece::name) ==
                       back->pieces.end()) {
        std::abort();
      }
    }
  }
  return 0;
}
