#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "kinema/core/host_array.h"

/// The starting noise of videos.
namespace kinema::sample {

/// Starting noise of one video: N(0, 1), a pure function of (seed, index, shape).
HostArray initial_noise(uint64_t seed, int64_t index, const Dims& dims);

/// The noise of `videos` videos of dims `video` [c, f, h, w], f32 [n, c, f, h, w].
HostArray initial_noise(uint64_t seed, int64_t videos, const Dims& video, int64_t first_index);

/// f32 [n, c, f, h, w] from the safetensors tensor `latents`, `initial_latents` or the file's only
/// tensor, which holds n videos or one for all of them. Throws an Error with both shapes if they
/// differ.
HostArray read_latents(const std::filesystem::path& path, int64_t videos, const Dims& video);

/// Rows `items` of the first axis, concatenated.
HostArray take_rows(const HostArray& x, const std::vector<int64_t>& items);

}  // namespace kinema::sample
