// Any key: nothing, or a module of a Wan transformer that its original name leads back to.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kinema/weights/lora_key.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  kinema::weights::other_method(text);
  const auto key = kinema::weights::read_lora_key(text);
  if (!key) {
    return 0;
  }
  const auto original = kinema::weights::original_key(key->module);
  if (!original || kinema::weights::diffusers_key(*original) != key->module) {
    std::abort();
  }
  return 0;
}
