#include <algorithm>
#include <cmath>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"

namespace kinema::adapters {
namespace {

constexpr std::array kPeftOftMarks{LoraPart::OFT_TRIANGLES};
// Beyond it the products of blocks would take minutes.
constexpr int64_t kLargestPeftBlock = 2048;

struct Triangles {
  int64_t count = 0;  // 1: one block, or one that is used for all
  int64_t size = 0;   // n
};

Triangles triangles_of(const LoraParts& parts) {
  const io::TensorView& view = need(parts, LoraPart::OFT_TRIANGLES);
  const Dims& dims = view.shape.dims;
  const int64_t elements = dims.size() == 2 ? dims[1] : 0;
  const auto n = static_cast<int64_t>(std::lround((1 + std::sqrt(1 + 8.0 * elements)) / 2));
  check(elements > 0 && dims[0] > 0 && n <= kLargestPeftBlock && n * (n - 1) / 2 == elements,
        "[lora] `{}` is {}, expected [blocks, n (n - 1) / 2] with n of at most {}", view.name,
        to_string(view.shape), kLargestPeftBlock);
  return {dims[0], n};
}

WeightSize peft_oft_size(const LoraParts& parts) {
  const Triangles blocks = triangles_of(parts);
  return {.rows = 0, .columns = blocks.count > 1 ? blocks.count * blocks.size : 0, .inputs = 0};
}

std::vector<double> times(const std::vector<double>& a, const std::vector<double>& b, size_t n) {
  std::vector<double> out(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < n; ++k) {
      for (size_t j = 0; j < n; ++j) {
        out[i * n + j] += a[i * n + k] * b[k * n + j];
      }
    }
  }
  return out;
}

/// (I - Q)(I + Q)^-1 = 2 (I + Q)^-1 - I.
std::vector<double> cayley(std::vector<double> skew, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    skew[i * n + i] = 1;
  }
  std::vector<double> out = inverse(std::move(skew), n);
  for (size_t i = 0; i < n * n; ++i) {
    out[i] = 2 * out[i] - (i % (n + 1) == 0 ? 1 : 0);
  }
  return out;
}

/// I + 2 Q + 2 Q^2 + 2 Q^3 + Q^4, PEFT's approximation of the Cayley transform. Its sign of Q is
/// the opposite of cayley's, as in PEFT.
std::vector<double> neumann(const std::vector<double>& skew, size_t n) {
  const std::vector<double> second = times(skew, skew, n);
  const std::vector<double> third = times(second, skew, n);
  const std::vector<double> fourth = times(third, skew, n);
  std::vector<double> out(n * n);
  for (size_t i = 0; i < n * n; ++i) {
    out[i] = (i % (n + 1) == 0 ? 1 : 0) + 2 * (skew[i] + second[i] + third[i]) + fourth[i];
  }
  return out;
}

/// I + scale (R - I) of each block, R from the upper triangle of the skew matrix Q.
std::vector<float> peft_rotations(const LoraParts& parts, float scale, bool exact) {
  const Triangles blocks = triangles_of(parts);
  const auto n = static_cast<size_t>(blocks.size);
  const std::vector<float> given = finite_values(need(parts, LoraPart::OFT_TRIANGLES));
  std::vector<float> out(static_cast<size_t>(blocks.count) * n * n);
  for (size_t block = 0; block < static_cast<size_t>(blocks.count); ++block) {
    std::vector<double> skew(n * n);
    const float* value = given.data() + block * (n * (n - 1) / 2);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) {
        skew[i * n + j] = *value;
        skew[j * n + i] = -*value++;
      }
    }
    const std::vector<double> rotation = exact ? cayley(std::move(skew), n) : neumann(skew, n);
    for (size_t i = 0; i < n * n; ++i) {
      const double unit = i % (n + 1) == 0 ? 1 : 0;
      out[block * n * n + i] = static_cast<float>(unit + scale * (rotation[i] - unit));
    }
  }
  return out;
}

void rotate_inputs(const LoraParts& parts, float scale, WeightRows weight, bool exact) {
  const Triangles blocks = triangles_of(parts);
  const int64_t n = blocks.size;
  const int64_t columns = weight.columns();
  const io::TensorView& view = need(parts, LoraPart::OFT_TRIANGLES);
  check(columns % n == 0, "[lora] `{}` {} is of blocks of {} inputs, but its layer has {} inputs",
        view.name, to_string(view.shape), n, columns);
  const std::vector<float> all = peft_rotations(parts, scale, exact);
  std::vector<float> given(static_cast<size_t>(weight.count * n));
  std::vector<float> rotated(given.size());
  for (int64_t block = 0; block < columns / n; ++block) {
    for (int64_t row = 0; row < weight.count; ++row) {
      std::copy_n(weight.values.data() + row * columns + block * n, n, given.data() + row * n);
    }
    const float* rotation = all.data() + (blocks.count > 1 ? block : 0) * n * n;
    product(weight.count, n, n, 1.0F, {given.data()}, {rotation, true}, 0.0F, rotated.data());
    for (int64_t row = 0; row < weight.count; ++row) {
      std::copy_n(rotated.data() + row * n, n, weight.values.data() + row * columns + block * n);
    }
  }
}

void add_series(const LoraParts& parts, float scale, WeightRows weight) {
  rotate_inputs(parts, scale, weight, false);
}
void add_exact(const LoraParts& parts, float scale, WeightRows weight) {
  rotate_inputs(parts, scale, weight, true);
}

}  // namespace

// W becomes W diag(I + scale (R_b - I))^T, R_b over the inputs (arXiv:2306.07280; PEFT's
// tuners/oft/layer.py).
constexpr LoraMethod kPeftOft{.name = "OFT of PEFT",
                              .marks = kPeftOftMarks,
                              .parts = kPeftOftMarks,
                              .size = peft_oft_size,
                              .rank = no_rank,
                              .block = single_rows,
                              .add = add_series};

constexpr LoraMethod kExactPeftOft{.name = "OFT of PEFT",
                                   .marks = kPeftOftMarks,
                                   .parts = kPeftOftMarks,
                                   .size = peft_oft_size,
                                   .rank = no_rank,
                                   .block = single_rows,
                                   .add = add_exact};

}  // namespace kinema::adapters
