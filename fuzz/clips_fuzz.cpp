// Any text as the list of a folder's clips: by the first byte, metadata.jsonl, metadata.csv or
// meta_cap.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "input_file.h"
#include "kinema/core/error.h"
#include "kinema/data/video_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fs = std::filesystem;
  if (size == 0) {
    return 0;
  }
  constexpr const char* kNames[] = {"metadata.jsonl", "metadata.csv", "meta_cap.json"};
  const char* name = kNames[data[0] % 3];
  const fs::path path = input_file(name, data + 1, size - 1);
  try {
    const AllocationLimit limit(size);
    const auto clips =
        kinema::data::list_clips(path.parent_path(), "text", kinema::data::MissingClip::Keep);
    if (clips.empty() || clips.size() > size) {
      std::abort();
    }
  } catch (const kinema::Error&) {
  }
  fs::remove(path);
  return 0;
}
