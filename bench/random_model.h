#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kinema/core/bf16.h"
#include "kinema/core/parallel.h"
#include "kinema/core/threefry.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/model_folder.h"
#include "kinema/nn/params.h"

/// Models of random weights on disk, written in pieces: the same seed gives the same bytes.
namespace kinema::bench {

/// SplitMix64 (Steele, Lea and Flood, 2014): four 16-bit uniforms from each number.
class Uniforms {
 public:
  explicit Uniforms(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

 private:
  uint64_t state_;
};

/// Where a parameter's values lie: in [middle - reach, middle + reach].
struct Range {
  double middle = 0;
  double reach = 0;
};

/// Sums of many products stay of the size of one; norms are near 1.
inline Range range_of(const nn::ParamSpec& spec) {
  if (spec.init.kind == nn::Init::Kind::CONSTANT) {
    return {spec.init.scale, 0.1 * spec.init.scale};
  }
  const Dims& dims = spec.shape.dims;
  int64_t fan_in = 1;
  for (size_t i = 1; i < dims.size(); ++i) {
    fan_in *= dims[i];
  }
  return {0, dims.size() < 2 ? 0.02 : std::sqrt(3.0 / static_cast<double>(fan_in))};
}

/// Random values of a tensor, in pieces, each a function of seed, name and its number.
inline void write_random(const nn::ParamSpec& spec, DType dtype, uint64_t seed,
                         const io::ByteSink& sink) {
  constexpr int64_t kChunk = int64_t{1} << 20;
  constexpr int64_t kAtOnce = 16;
  const Range range = range_of(spec);
  const int64_t elements = spec.shape.elements();
  const int64_t chunks = (elements + kChunk - 1) / kChunk;
  const auto threads = static_cast<int>(std::thread::hardware_concurrency());
  for (int64_t first = 0; first < chunks; first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, chunks - first);
    std::vector<HostArray> made(static_cast<size_t>(count));
    for_each_in_parallel(made.size(), threads, [&](size_t i) {
      const int64_t chunk = first + static_cast<int64_t>(i);
      const auto key = random_key(seed, spec.name, static_cast<uint64_t>(chunk));
      Uniforms uniforms((static_cast<uint64_t>(key[0]) << 32U) | key[1]);
      HostArray values(Shape{DType::F32, {std::min(kChunk, elements - chunk * kChunk)}});
      const std::span<float> to = values.as<float>();
      const auto scale = static_cast<float>(range.reach / 32768.0);
      const auto middle = static_cast<float>(range.middle);
      for (size_t at = 0; at < to.size(); at += 4) {
        const uint64_t bits = uniforms.next();
        for (size_t k = 0; k < 4 && at + k < to.size(); ++k) {
          to[at + k] = middle + scale * static_cast<float>(static_cast<int16_t>(bits >> (16 * k)));
        }
      }
      made[i] = dtype == DType::F32 ? std::move(values) : convert(values, dtype);
    });
    for (const HostArray& each : made) {
      sink(each.bytes);
    }
  }
}

/// A diffusers or transformers folder of these parameters.
inline void write_model(const std::filesystem::path& folder, const std::string& stem,
                        const io::Json& config, const std::vector<nn::ParamSpec>& specs,
                        DType dtype, uint64_t seed) {
  std::vector<io::TensorEntry> entries;
  for (const nn::ParamSpec& spec : specs) {
    entries.push_back(
        {spec.name, Shape{dtype, spec.shape.dims}, [&spec, dtype, seed](const io::ByteSink& sink) {
           write_random(spec, dtype, seed, sink);
         }});
  }
  io::write_model_folder(folder, config, entries,
                         {.max_shard_bytes = int64_t{5} << 30, .stem = stem});
}

}  // namespace kinema::bench
