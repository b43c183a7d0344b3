// Any bytes as a TensorBoard event file, and as an event by itself.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/records/event_file.h"
#include "kinema/records/tfrecord.h"

namespace {

void read_file(std::span<const std::byte> bytes) {
  const auto file = kinema::records::TfRecordFile::parse(bytes, "input");
  for (int64_t i = 0; i < file.size(); ++i) {
    kinema::records::parse_event(file.at(i), file.where(i));
  }
}

void read_event(std::span<const std::byte> bytes) { kinema::records::parse_event(bytes, "input"); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationLimit limit(size);
  for (const auto read : {read_file, read_event}) {
    try {
      read(std::as_bytes(std::span(data, size)));
    } catch (const kinema::Error&) {
      continue;
    }
  }
  return 0;
}
