#pragma once

#include <cstddef>
#include <cstdint>

namespace kinema::adapters {

/// The role of a LoRA file's tensor for its module.
enum class LoraPart : uint8_t {
  DOWN,       // [rank, in]: `lora_A.weight`, `lora_down.weight`, `lora.down.weight`
  UP,         // [out, rank]: `lora_B.weight`, `lora_up.weight`, `lora.up.weight`
  UP_BIAS,    // [out], scaled like the product: `lora_B.bias`
  ALPHA,      // a number: `alpha`
  DIFF,       // difference of the weight, or of a parameter without a module: `diff`
  DIFF_BIAS,  // difference of the bias: `diff_b`
  MID,        // [rank, rank, kernel...], Tucker's core between down and up: `lora_mid.weight`
  HADA_W1_A,  // LoHa: [out, rank], or [rank, out] with a core
  HADA_W1_B,  // [rank, in]
  HADA_W2_A,
  HADA_W2_B,
  HADA_T1,  // [rank, rank, kernel...]
  HADA_T2,
  LOKR_W1,  // LoKr: [out / k, in / n]
  LOKR_W1_A,
  LOKR_W1_B,
  LOKR_W2,        // [k, n, kernel...]
  LOKR_W2_A,      // [k, rank], or [rank, k] with a core
  LOKR_W2_B,      // [rank, n kernel], or [rank, n] with a core
  LOKR_T2,        // [rank, rank, kernel...]
  OFT_BLOCKS,     // [blocks, n, n] of OFT, [stages, blocks, n, n] of BOFT
  OFT_TRIANGLES,  // PEFT's OFT: [blocks, n (n - 1) / 2], or [1, n (n - 1) / 2] for all blocks
  RESCALE,        // [out], a factor of each row after OFT or BOFT
  GLORA_A1,
  GLORA_A2,
  GLORA_B1,
  GLORA_B2,
  GLORA_BM,    // [rank, rank, kernel...]
  IA3_WEIGHT,  // [out] or [in]: 1 less than the factor
  IA3_INPUT,   // a number: 1 if it is for inputs
  IA3_FACTOR,  // PEFT's: [out, 1] or [1, in]
  DORA_SCALE,  // kohya's: [out, 1...] or [1, in, 1...]
  MAGNITUDE,   // PEFT's: [out], or [1, out, 1, 1]
};
constexpr size_t kLoraParts = static_cast<size_t>(LoraPart::MAGNITUDE) + 1;

}  // namespace kinema::adapters
