#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "kinema/core/host_array.h"

/// The noise that videos begin with.
namespace kinema::sample {

/// Starting noise of one video: N(0, 1), a pure function of (seed, index, shape).
HostArray initial_noise(uint64_t seed, int64_t index, const Dims& dims);

/// The noise of `videos` videos [c, f, h, w] each, f32 [n, c, f, h, w].
HostArray initial_noise(uint64_t seed, int64_t videos, const Dims& video, int64_t first_index);

/// f32 [n, c, f, h, w] from the safetensors tensor `latents`, `initial_latents` or the only one of
/// the file, which holds n videos or one for all of them. Throws an Error naming both shapes when
/// they differ.
HostArray read_latents(const std::filesystem::path& path, int64_t videos, const Dims& video);

/// Rows `items` of the first axis, one after the other.
HostArray take_rows(const HostArray& x, const std::vector<int64_t>& items);

}  // namespace kinema::sample
