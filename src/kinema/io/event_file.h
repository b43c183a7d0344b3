#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kinema::io {

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

/// The values of a serialized `tensorflow.Event`, none for one that only frames a file; throws an
/// Error with `where` for bytes that are no Event.
std::vector<EventValue> parse_event(std::span<const std::byte> bytes, const std::string& where);

/// True for a name as TensorBoard looks for.
bool is_event_file(const std::filesystem::path& path);

/// All values of an event file, in the order written; throws an Error for a file that is damaged.
std::vector<EventValue> read_event_file(const std::filesystem::path& path);

}  // namespace kinema::io
