// Any text as a run's metrics: rows, at most one a line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "allocations.h"
#include "input_file.h"
#include "kinema/metrics/metrics_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto path = input_file("metrics.jsonl", data, size);
  const AllocationLimit limit(size);
  kinema::metrics::MetricsReader reader(path);
  reader.poll();
  if (reader.rows().size() > size) {
    std::abort();
  }
  return 0;
}
