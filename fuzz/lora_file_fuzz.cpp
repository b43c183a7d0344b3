// Any bytes as a LoRA file: an Error, or modules whose products have one rank and whose other
// methods change a weight of the size that they imply.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/weights/lora.h"

namespace {

using kinema::weights::Lora;

/// Changes a weight of these sizes, where it is small.
void change(const Lora::Target& target) {
  using namespace kinema::adapters;
  const WeightSize size = target.method->size(target.parts);
  const int64_t rows = target.rows > 0 ? target.rows : 3;
  const int64_t inputs = size.inputs > 0 ? size.inputs : size.columns > 0 ? size.columns : 2;
  const int64_t columns = size.columns > 0 ? size.columns : inputs;
  const int64_t rank = target.method->rank(target.parts);
  if (rows > 64 || columns > 64 || rank > 64) {
    return;
  }
  if (columns % inputs != 0 || target.first_row + rows > std::max<int64_t>(size.rows, rows)) {
    std::abort();
  }
  std::vector<float> values(static_cast<size_t>(rows * columns), 0.5F);
  change_weight(*target.method, target.parts, target.factor, 0.5,
                {.first = target.first_row, .count = rows, .inputs = inputs, .values = values});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto path = input_file("adapter.safetensors", data, size);
  try {
    std::optional<AllocationLimit> limit(std::in_place, size);
    const Lora lora = Lora::open(path);
    limit.reset();
    using kinema::weights::LoraMember;
    for (const Lora::Targets* targets :
         {&lora.targets(0), &lora.targets(1), &lora.targets(LoraMember::TEXT_ENCODER),
          &lora.targets(LoraMember::TEXT_ENCODER_2)}) {
      for (const auto& [module, target] : *targets) {
        if ((target.down == nullptr) != (target.up == nullptr) || !std::isfinite(target.factor) ||
            (target.down != nullptr && target.up->shape.dims.at(1) != target.rank())) {
          std::abort();
        }
        if (target.method != nullptr) {
          change(target);
        }
      }
    }
  } catch (const kinema::Error&) {
  }
  return 0;
}
