#include "kinema/data/source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kinema/core/error.h"
#include "kinema/core/finite.h"
#include "kinema/core/threefry.h"

namespace kinema::data {
namespace {

// A keyed permutation of [0, 4^half_bits): a balanced Feistel network with threefry as the round
// function. 12 rounds also mix small domains well.
uint64_t permute(std::array<uint32_t, 2> key, uint64_t x, int half_bits) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = x >> half_bits;
  uint64_t right = x & mask;
  for (uint32_t round = 0; round < 12; ++round) {
    const auto mixed = threefry2x32(key, {static_cast<uint32_t>(right), round});
    const uint64_t next = left ^ (mixed[0] & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

/// One array of every sample; no bytes if none has it.
HostArray stack_part(const std::vector<Sample>& samples, HostArray Sample::*part,
                     const char* what) {
  const HostArray& first = samples[0].*part;
  for (const Sample& sample : samples) {
    const HostArray& array = sample.*part;
    check(array.bytes.empty() == first.bytes.empty(),
          "[data] {} has no {}, unlike {}: a batch needs all or none",
          (array.bytes.empty() ? sample : samples[0]).id, what,
          (array.bytes.empty() ? samples[0] : sample).id);
    check(array.shape == first.shape,
          "[data] {} of {} are {} but those of {} are {}: a batch needs one size\n"
          "  `buckets` keeps samples of several sizes apart: buckets=auto for records",
          what, sample.id, to_string(array.shape), samples[0].id, to_string(first.shape));
  }
  if (first.bytes.empty()) {
    return {};
  }
  Shape shape = first.shape;
  shape.dims.insert(shape.dims.begin(), static_cast<int64_t>(samples.size()));
  HostArray out(shape);
  size_t at = 0;
  for (const Sample& sample : samples) {
    const HostArray& array = sample.*part;
    std::memcpy(out.bytes.data() + at, array.bytes.data(), array.bytes.size());
    at += array.bytes.size();
  }
  return out;
}

}  // namespace

int64_t bytes_of(const Sample& sample) {
  size_t sum = 0;
  for (const SamplePart& part : kParts) {
    sum += (sample.*part.of_sample).bytes.size();
  }
  return static_cast<int64_t>(sum);
}

std::string nonfinite_part(const Sample& sample) {
  for (const SamplePart& part : kParts) {
    const HostArray& array = sample.*part.of_sample;
    if (!all_finite(array)) {
      return part.what;
    }
  }
  return "";
}

void convert_to(DType dtype, Sample& sample) {
  for (const SamplePart& part : kParts) {
    HostArray& array = sample.*part.of_sample;
    if (!array.bytes.empty() && !part.exact && array.shape.dtype != dtype) {
      array = convert(array, dtype);
    }
  }
}

int64_t shuffled_index(uint64_t seed, int64_t position, int64_t size) {
  check(size > 0 && size < int64_t{1} << 62 && position >= 0,
        "[data] position {} in a data set of {} samples", position, size);
  const auto epoch = static_cast<uint64_t>(position / size);
  const auto key = random_key(seed, "data order", epoch);
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1)));
  const int half_bits = std::max(1, (bits + 1) / 2);
  // Cycle walking: repeat until the result is inside the data set. The domain is at most 4 times
  // larger, so this takes at most about 4 steps on average.
  auto x = static_cast<uint64_t>(position % size);
  do {
    x = permute(key, x, half_bits);
  } while (x >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(x);
}

Batch stack(std::vector<Sample> samples) {
  check(!samples.empty(), "[data] a batch needs at least one sample");
  Batch batch;
  const Sample& first = samples[0];
  for (const Sample& sample : samples) {
    check(sample.timestep.has_value() == first.timestep.has_value(),
          "[data] {} has a timestep and {} has not, or the other way round", sample.id, first.id);
    if (sample.timestep) {
      batch.timesteps.push_back(*sample.timestep);
    }
    batch.ids.push_back(sample.id);
  }
  for (const SamplePart& part : kParts) {
    batch.*part.of_batch = stack_part(samples, part.of_sample, part.what);
  }
  return batch;
}

}  // namespace kinema::data
