#include "kinema/sample/latent_colors.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

constexpr int64_t kCells = 16;  // a side
constexpr int64_t kPictures = 12;
constexpr int64_t kMostChannels = 512;  // the fit takes memory with their square

/// A soft mixture of two colors along a line, with an edge and noise: f32 [3, frames, side, side]
/// in
/// [-1, 1], all frames equal. Random by `number` only.
HostArray fitted_picture(int64_t number, int64_t frames, int64_t side) {
  std::mt19937 random(static_cast<uint32_t>(number + 1));
  const auto draw = [&] { return static_cast<float>(random()) * 0x1p-31F - 1.0F; };  // -1 to 1
  float from[3];
  float to[3];
  float edge[3];
  for (int c = 0; c < 3; ++c) {
    from[c] = draw();
    to[c] = draw();
    edge[c] = draw();
  }
  const float slope_y = draw();
  const float slope_x = draw();
  const float place = draw();
  const float noise = 0.1F * (1.0F + draw());
  HostArray out(Shape{DType::F32, {3, frames, side, side}});
  float* at = out.as<float>().data();
  for (int c = 0; c < 3; ++c) {
    for (int64_t f = 0; f < frames; ++f) {
      std::mt19937 grain(static_cast<uint32_t>(number * 3 + c + 100));
      for (int64_t y = 0; y < side; ++y) {
        for (int64_t x = 0; x < side; ++x) {
          const float v = 2.0F * static_cast<float>(y) / static_cast<float>(side) - 1.0F;
          const float u = 2.0F * static_cast<float>(x) / static_cast<float>(side) - 1.0F;
          const float t = 0.5F + 0.5F * std::sin(3.0F * (slope_y * v + slope_x * u));
          const float soft = from[c] + t * (to[c] - from[c]);
          const float color = slope_x * v - slope_y * u > place ? edge[c] : soft;
          const float grained = color + noise * (static_cast<float>(grain()) * 0x1p-31F - 1.0F);
          *at++ = std::clamp(grained, -1.0F, 1.0F);
        }
      }
    }
  }
  return out;
}

/// Mean color `c` of a cell in the first frame of pixels f32 [3, f, h, w].
double mean_color(const HostArray& pixels, int64_t c, int64_t y, int64_t x, int64_t cell) {
  const Dims& dims = pixels.shape.dims;
  const float* plane = pixels.as<float>().data() + c * dims[1] * dims[2] * dims[3];
  double sum = 0;
  for (int64_t i = 0; i < cell; ++i) {
    for (int64_t k = 0; k < cell; ++k) {
      sum += plane[(y * cell + i) * dims[3] + x * cell + k];
    }
  }
  return sum / static_cast<double>(cell * cell);
}

}  // namespace

std::vector<double> least_squares(std::span<const double> rows, std::span<const double> y,
                                  int64_t columns, double ridge) {
  const auto n = static_cast<size_t>(columns);
  std::vector<double> matrix(n * n);  // A^T A + ridge
  std::vector<double> out(n);         // A^T y, then the solution
  for (size_t r = 0; r < y.size(); ++r) {
    const std::span<const double> row = rows.subspan(r * n, n);
    for (size_t i = 0; i < n; ++i) {
      out[i] += row[i] * y[r];
      for (size_t k = 0; k <= i; ++k) {
        matrix[i * n + k] += row[i] * row[k];
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {  // the Cholesky factor, in place
    matrix[i * n + i] += ridge;
    for (size_t k = 0; k <= i; ++k) {
      double sum = matrix[i * n + k];
      for (size_t j = 0; j < k; ++j) {
        sum -= matrix[i * n + j] * matrix[k * n + j];
      }
      check(k < i || sum > 0, "[sample] the least-squares problem is singular or not finite");
      matrix[i * n + k] = k < i ? sum / matrix[k * n + k] : std::sqrt(sum);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) {
      out[i] -= matrix[i * n + k] * out[k];
    }
    out[i] /= matrix[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) {
      out[i] -= matrix[k * n + i] * out[k];
    }
    out[i] /= matrix[i * n + i];
  }
  return out;
}

LatentColors fit_colors(const encoders::Autoencoder& autoencoder) {
  const encoders::LatentLayout layout = autoencoder.layout();
  check(layout.channels <= kMostChannels,
        "[sample] latents of {} channels are too many to fit colors to, at most {}",
        layout.channels, kMostChannels);
  const int64_t frames = layout.first_frame_alone ? 1 : layout.temporal;
  LatentColors out{.channels = layout.channels};
  const int64_t columns = layout.channels + 1;
  std::vector<double> rows;
  std::vector<double> colors[3];
  for (int64_t i = 0; i < kPictures; ++i) {
    const HostArray pixels = fitted_picture(i, frames, kCells * layout.spatial);
    const HostArray latents = autoencoder.encode(pixels);
    const auto values = latents.as<float>();
    const int64_t plane = latents.shape.dims[1] * kCells * kCells;
    for (int64_t cell = 0; cell < kCells * kCells; ++cell) {
      for (int64_t c = 0; c < layout.channels; ++c) {
        rows.push_back(values[static_cast<size_t>(c * plane + cell)]);
      }
      rows.push_back(1);
      for (int64_t c = 0; c < 3; ++c) {
        colors[c].push_back(mean_color(pixels, c, cell / kCells, cell % kCells, layout.spatial));
      }
    }
  }
  constexpr double kRidge = 1e-3;  // of a cell; latents have a variance of about 1
  for (const std::vector<double>& color : colors) {
    for (const double factor :
         least_squares(rows, color, columns, kRidge * static_cast<double>(color.size()))) {
      out.factors.push_back(static_cast<float>(factor));
    }
  }
  return out;
}

HostArray picture_of(const HostArray& latents, int64_t frame, const LatentColors& colors) {
  const Dims& dims = latents.shape.dims;
  check(latents.shape.rank() == 4 && dims[0] == colors.channels && frame >= 0 && frame < dims[1],
        "[sample] frame {} of latents {} cannot be shown: expected {} channels", frame,
        to_string(latents.shape), colors.channels);
  const int64_t cells = dims[2] * dims[3];
  HostArray out(Shape{DType::U8, {dims[2], dims[3], 3}});
  const auto values = latents.as<float>();
  uint8_t* to = out.as<uint8_t>().data();
  for (int64_t cell = 0; cell < cells; ++cell) {
    for (int64_t c = 0; c < 3; ++c) {
      const float* factors = colors.factors.data() + c * (dims[0] + 1);
      float sum = factors[dims[0]];
      for (int64_t i = 0; i < dims[0]; ++i) {
        sum += factors[i] * values[static_cast<size_t>((i * dims[1] + frame) * cells + cell)];
      }
      *to++ = std::isnan(sum)
                  ? uint8_t{0}
                  : static_cast<uint8_t>(std::lround(std::clamp((sum + 1) * 127.5F, 0.0F, 255.0F)));
    }
  }
  return out;
}

io::Json to_json(const LatentColors& colors) {
  io::Json factors = io::Json::array();
  for (const float factor : colors.factors) {
    factors.append(static_cast<double>(factor));
  }
  return io::Json::object({{"channels", colors.channels}, {"factors", std::move(factors)}});
}

LatentColors read_latent_colors(const io::Json& json) {
  LatentColors out{.channels = json.at("channels").as_int()};
  for (const io::Json& factor : json.at("factors").items()) {
    out.factors.push_back(static_cast<float>(factor.as_number()));
  }
  check(out.channels > 0 && std::ssize(out.factors) / 3 == out.channels + 1 &&
            out.factors.size() % 3 == 0,
        "[sample] {} factors for {} channels, expected three colors with a constant each",
        out.factors.size(), out.channels);
  return out;
}

}  // namespace kinema::sample
