#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kinema::records {

/// CRC-32C (Castagnoli, RFC 3720), the polynomial of TFRecord and TensorBoard files. `before` is
/// the CRC of earlier bytes, if the bytes are passed in pieces.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

/// The CRC as TFRecord stores it: rotated right by 15 bits plus 0xa282ead8.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace kinema::records
