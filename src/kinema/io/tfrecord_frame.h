#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The frames that TFRecord files are made of; for their readers only.
namespace kinema::io {

// length (8), its CRC (4), payload, its CRC (4)
constexpr uint64_t kBeforePayload = 12;
constexpr uint64_t kAfterPayload = 4;

/// The length of a record's payload, of which `left` bytes of the file begin at byte `at`; `header`
/// has the first kBeforePayload of them, or all there are. Throws an Error for a damaged length or
/// a record that the file has no room for.
uint64_t payload_length(std::span<const std::byte> header, uint64_t left, uint64_t at,
                        int64_t record, std::string_view source);

/// Throws an Error when the CRC behind a payload, which begins at byte `offset`, is not its own.
/// `where` names the record.
void check_payload(std::span<const std::byte> payload, std::span<const std::byte> crc,
                   uint64_t offset, const std::string& where);

}  // namespace kinema::io
