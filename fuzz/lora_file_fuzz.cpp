// Any bytes as a LoRA file: an Error, or modules whose products have one rank.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/weights/lora.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kinema::weights::Lora;
  const auto path = input_file("adapter.safetensors", data, size);
  try {
    const AllocationLimit limit(size);
    const Lora lora = Lora::open(path);
    using kinema::weights::LoraMember;
    for (const Lora::Targets* targets :
         {&lora.targets(0), &lora.targets(1), &lora.targets(LoraMember::TEXT_ENCODER),
          &lora.targets(LoraMember::TEXT_ENCODER_2)}) {
      for (const auto& [module, target] : *targets) {
        if ((target.down == nullptr) != (target.up == nullptr) || !std::isfinite(target.factor) ||
            (target.down != nullptr && target.up->shape.dims.at(1) != target.rank())) {
          std::abort();
        }
      }
    }
  } catch (const kinema::Error&) {
  }
  return 0;
}
