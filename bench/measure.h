#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/core/threefry.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/environment.h"

/// What the benches share: each measures one thing and prints one line of JSON.
namespace kinema::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Waits for the weights and resets the peak of memory: making them at random is not part of
/// what is measured. The peers do the same.
inline void weights_are_there(std::span<const pjrt::Buffer> weights) {
  for (const pjrt::Buffer& each : weights) {
    each.await();
  }
  runtime::reset_peak_rss();
}

/// Standard normal, f32.
inline HostArray noise(Dims dims, uint64_t seed) {
  HostArray array(Shape{DType::F32, std::move(dims)});
  RandomStream stream(random_key(seed, "bench"));
  for (float& value : array.as<float>()) {
    value = stream.normal();
  }
  return array;
}

/// Seconds of each run: on the clock, and those of all threads on processors.
struct Times {
  std::vector<double> wall, processor;

  /// As members of the JSON object that a bench prints.
  std::string json() const {
    return fmt::format("\"seconds\": [{:.5f}], \"cpu_seconds\": [{:.5f}]", fmt::join(wall, ", "),
                       fmt::join(processor, ", "));
  }
};

/// Times of `count` runs after `warmup` that do not count.
inline Times time_runs(int64_t warmup, int64_t count, const std::function<void()>& run) {
  Times times;
  for (int64_t i = 0; i < warmup + count; ++i) {
    const Clock::time_point start = Clock::now();
    const std::clock_t busy = std::clock();
    run();
    if (i >= warmup) {
      times.wall.push_back(seconds_since(start));
      times.processor.push_back(static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC);
    }
  }
  return times;
}

/// `, "peak_device_bytes": ...` of an accelerator, the random weights' way there included; of CPUs,
/// which are the process itself, nothing.
inline std::string peak_device_bytes(const pjrt::Client& client) {
  const std::optional<pjrt::DeviceMemory> memory = client.devices().front().memory();
  return memory && memory->peak_bytes_in_use
             ? fmt::format(", \"peak_device_bytes\": {}", *memory->peak_bytes_in_use)
             : "";
}

/// What bench/compare.py reads. `checksum` shows that something was computed.
inline void print_result(const Times& times, double compile_seconds, double first_seconds,
                         double checksum, const std::string& device = {}) {
  fmt::print(
      "{{\"name\": \"kinema\", {}, \"compile_seconds\": {:.3f}, "
      "\"first_seconds\": {:.3f}, \"checksum\": {:.6g}, \"peak_rss_bytes\": {}{}}}\n",
      times.json(), compile_seconds, first_seconds, checksum, runtime::peak_rss_bytes(), device);
}

/// Mean of absolute values, f32.
inline double magnitude(const HostArray& array) {
  double sum = 0;
  for (const float value : array.as<float>()) {
    sum += value < 0 ? -value : value;
  }
  return sum / static_cast<double>(array.as<float>().size());
}

}  // namespace kinema::bench
