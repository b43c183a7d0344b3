#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The frames of TFRecord files, for their readers only.
namespace kinema::records {

// length (8), its CRC (4), payload, its CRC (4)
constexpr uint64_t kBeforePayload = 12;
constexpr uint64_t kAfterPayload = 4;

/// The length of a record's payload; `left` bytes of the file remain from byte `at`, and `header`
/// is the first kBeforePayload of them, or all. Throws an Error for a corrupt length or a record
/// that is longer than the file.
uint64_t payload_length(std::span<const std::byte> header, uint64_t left, uint64_t at,
                        int64_t record, std::string_view source);

/// Throws an Error if the CRC after a payload, which starts at byte `offset`, does not match.
/// `where` is the record's name.
void check_payload(std::span<const std::byte> payload, std::span<const std::byte> crc,
                   uint64_t offset, const std::string& where);

}  // namespace kinema::records
