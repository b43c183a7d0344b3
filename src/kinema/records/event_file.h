#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kinema::records {

/// One value of a TensorBoard event.
struct EventValue {
  enum class Kind : uint8_t { SCALAR, TEXT, IMAGE, OTHER };
  int64_t step = 0;
  double wall_seconds = 0;
  std::string tag;
  Kind kind = Kind::OTHER;
  double scalar = 0;       // SCALAR
  std::string bytes = {};  // TEXT: its lines; IMAGE: the encoded picture
};

/// The values of a serialized `tensorflow.Event`, none for an event without a summary; throws an
/// Error with `where` for bytes that are not an Event.
std::vector<EventValue> parse_event(std::span<const std::byte> bytes, const std::string& where);

/// True for names that TensorBoard reads.
bool is_event_file(const std::filesystem::path& path);

/// All values of an event file, in order; throws an Error for a corrupt file.
std::vector<EventValue> read_event_file(const std::filesystem::path& path);

}  // namespace kinema::records
