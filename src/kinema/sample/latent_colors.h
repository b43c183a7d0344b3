#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/io/json.h"

/// Pictures of latents without decoding them, for previews.
namespace kinema::sample {

/// A linear map of a latent cell's channels to its mean color.
struct LatentColors {
  int64_t channels = 0;
  /// [3, channels + 1]: red, green, blue, each with its constant last. Colors are in [-1, 1].
  std::vector<float> factors;

  bool operator==(const LatentColors&) const = default;
};

/// The least-squares fit of an autoencoder: it encodes a few small pictures of soft colors, edges
/// and noise, and fits the mean colors of cells to their latents, with a little ridge so that
/// channels without an effect stay out. Compiles the encoder for pictures of 16 cells a side, and
/// leaves its parameters loaded. Throws an Error for more than
/// 512 channels, and what `encode` throws.
LatentColors fit_colors(const encoders::Autoencoder& autoencoder);

/// Frame `frame` of latents f32 [c, f, h, w] as u8 [h, w, 3]. Throws an Error for another number of
/// channels. NaN becomes black.
HostArray picture_of(const HostArray& latents, int64_t frame, const LatentColors& colors);

io::Json to_json(const LatentColors& colors);
/// Throws an Error for other JSON.
LatentColors read_latent_colors(const io::Json& json);

/// The x that minimizes |A x - y|^2 + ridge |x|^2, by the normal equations; `rows` of A in order,
/// [count(y), columns].
std::vector<double> least_squares(std::span<const double> rows, std::span<const double> y,
                                  int64_t columns, double ridge);

}  // namespace kinema::sample
