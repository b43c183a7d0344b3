#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"

/// The starting noise of videos.
namespace kinema::sample {

/// The name of starting noise among the draws of a seed.
inline constexpr std::string_view kInitialLatents = "initial_latents";

/// Noise of one video: N(0, 1), a pure function of (seed, name, index, shape).
HostArray initial_noise(uint64_t seed, int64_t index, const Dims& dims,
                        std::string_view name = kInitialLatents);

/// The noise of `videos` videos of dims `video` [c, f, h, w], f32 [n, c, f, h, w].
HostArray initial_noise(uint64_t seed, int64_t videos, const Dims& video, int64_t first_index,
                        std::string_view name = kInitialLatents);

/// The noise that a stochastic sampler adds in step `step` to the videos `indices`: N(0, 1) of dims
/// `batch` [b, c, f, h, w], a pure function of (seed, index, step, dims). With a correlation r for
/// the step it is r times the last step's own noise plus sqrt(1 - r^2) of new noise.
HostArray step_noise(uint64_t seed, const std::vector<int64_t>& indices, int64_t step,
                     const std::vector<double>& correlations, const Dims& batch);

/// f32 [n, c, f, h, w] from the safetensors tensor `latents`, `initial_latents` or the file's only
/// tensor, which holds n videos or one for all of them. Throws an Error with both shapes if they
/// differ. With a name, the tensor of that name.
HostArray read_latents(const std::filesystem::path& path, int64_t videos, const Dims& video,
                       std::string_view name = "");
/// True if the file has a tensor of that name.
bool has_latents(const std::filesystem::path& path, std::string_view name);

/// Rows `items` of the first axis, concatenated.
HostArray take_rows(const HostArray& x, const std::vector<int64_t>& items);

}  // namespace kinema::sample
