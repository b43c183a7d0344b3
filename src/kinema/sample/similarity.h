#pragma once

#include "kinema/core/host_array.h"

/// Similarity of two videos: how much training changed the video of a prompt.
namespace kinema::sample {

/// The mean structural similarity of two videos u8 [f, h, w, c], 1 for equal ones, as in
/// scikit-image's `structural_similarity(a, b, channel_axis=-1, data_range=255)` (Wang et al.
/// 2004): over windows of 7 x 7 x 7 frames, rows and columns with equal weights and sample
/// covariances, k1 = 0.01, k2 = 0.03, without windows across edges; the mean over windows and
/// channels. On an axis shorter than 7, the window has the largest odd length that fits.
///
/// Throws an Error if the shapes differ or are not videos.
double structural_similarity(const HostArray& a, const HostArray& b);

/// 10 log10(255^2 / mean squared difference) of two videos in decibels; infinite for equal ones.
double peak_signal_to_noise(const HostArray& a, const HostArray& b);

}  // namespace kinema::sample
