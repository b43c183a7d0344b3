#pragma once

#include "kinema/core/host_array.h"

/// How alike two videos are: what training did to the video of a prompt.
namespace kinema::sample {

/// The mean structural similarity of two videos u8 [f, h, w, c], 1 for equal ones, as
/// scikit-image's `structural_similarity(a, b, channel_axis=-1, data_range=255)` has it (Wang et
/// al. 2004): over windows of 7 x 7 x 7 frames, rows and columns with equal weights and sample
/// covariances, k1 = 0.01, k2 = 0.03, no window across an edge; the mean over windows and channels.
/// An axis shorter than 7 has a window of the greatest odd length that it holds.
///
/// Throws an Error when the shapes differ or are no videos.
double structural_similarity(const HostArray& a, const HostArray& b);

/// 10 log10(255^2 / mean squared difference) of two videos in decibels; infinite for equal ones.
double peak_signal_to_noise(const HostArray& a, const HostArray& b);

}  // namespace kinema::sample
