#include <algorithm>
#include <cmath>
#include <utility>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"

namespace kinema::adapters {
namespace {

constexpr std::array kOftMarks{LoraPart::OFT_BLOCKS};
constexpr std::array kOftParts{LoraPart::OFT_BLOCKS, LoraPart::RESCALE};
// Beyond it the inverses would take minutes.
constexpr int64_t kLargestBlock = 2048;

/// The sizes of OFT_BLOCKS: OFT has one stage.
struct Blocks {
  int64_t stages = 1;
  int64_t count = 0;
  int64_t size = 0;
};

Blocks blocks_of(const LoraParts& parts) {
  const io::TensorView& view = need(parts, LoraPart::OFT_BLOCKS);
  const Dims& dims = view.shape.dims;
  const bool has_stages = dims.size() == 4;
  check((dims.size() == 3 || has_stages) && dims[dims.size() - 1] == dims[dims.size() - 2] &&
            view.shape.elements() > 0 && dims.back() <= kLargestBlock,
        "[lora] `{}` is {}, expected square blocks of at most {} rows", view.name,
        to_string(view.shape), kLargestBlock);
  const Blocks out{has_stages ? dims[0] : 1, dims[dims.size() - 3], dims.back()};
  const bool mixes = out.stages <= 32 && out.size % 2 == 0 &&
                     out.count % (int64_t{1} << std::max<int64_t>(out.stages - 1, 0)) == 0;
  check(!has_stages || mixes, "[lora] `{}` is {}, expected stages of blocks that form a butterfly",
        view.name, to_string(view.shape));
  return out;
}

WeightSize oft_size(const LoraParts& parts) {
  const Blocks blocks = blocks_of(parts);
  const WeightSize out{.rows = blocks.count * blocks.size, .columns = 0, .inputs = 0};
  if (has(parts, LoraPart::RESCALE)) {
    const io::TensorView& rescale = need(parts, LoraPart::RESCALE);
    if (rescale.shape.elements() != out.rows) {
      misfit(rescale, need(parts, LoraPart::OFT_BLOCKS));
    }
  }
  return out;
}

int64_t block_rows(const LoraParts& parts) { return blocks_of(parts).size; }
int64_t all_rows(const LoraParts& parts) {
  const Blocks blocks = blocks_of(parts);
  return blocks.count * blocks.size;
}

/// Cayley's transform of each block B: R = (I + Q)(I - Q)^-1 with Q = B - B^T, whose norm over all
/// blocks is at most alpha times the number of rows if alpha > 0. Returns I + strength (R - I).
std::vector<float> rotations(const LoraParts& parts, double strength) {
  const Blocks blocks = blocks_of(parts);
  const auto n = static_cast<size_t>(blocks.size);
  const auto count = static_cast<size_t>(blocks.stages * blocks.count);
  const std::vector<float> given = finite_values(need(parts, LoraPart::OFT_BLOCKS));
  std::vector<double> skew(given.size());
  double squares = 0;
  for (size_t block = 0; block < count; ++block) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const double q = static_cast<double>(given[(block * n + i) * n + j]) -
                         static_cast<double>(given[(block * n + j) * n + i]);
        skew[(block * n + i) * n + j] = q;
        squares += q * q;
      }
    }
  }
  const double alpha = has(parts, LoraPart::ALPHA) ? number_of(need(parts, LoraPart::ALPHA)) : 0;
  const double most = alpha * static_cast<double>(blocks.count * blocks.size);
  const double norm = std::sqrt(squares) + 1e-8;
  const double shrink = most > 0 && norm > most ? most / norm : 1;
  std::vector<float> out(given.size());
  for (size_t block = 0; block < count; ++block) {
    std::vector<double> minus(n * n);
    for (size_t i = 0; i < n * n; ++i) {
      minus[i] = (i % (n + 1) == 0 ? 1 : 0) - shrink * skew[block * n * n + i];
    }
    // (I + Q)(I - Q)^-1 = 2 (I - Q)^-1 - I
    const std::vector<double> inverted = inverse(std::move(minus), n);
    for (size_t i = 0; i < n * n; ++i) {
      const double unit = i % (n + 1) == 0 ? 1 : 0;
      out[block * n * n + i] = static_cast<float>(unit + strength * 2 * (inverted[i] - unit));
    }
  }
  return out;
}

void rescale_rows(const LoraParts& parts, WeightRows weight) {
  if (!has(parts, LoraPart::RESCALE)) {
    return;
  }
  const std::vector<float> factors = finite_values(need(parts, LoraPart::RESCALE));
  const int64_t columns = weight.columns();
  for (int64_t row = 0; row < weight.count; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      weight.values[static_cast<size_t>(row * columns + i)] *=
          factors[static_cast<size_t>(weight.first + row)];
    }
  }
}

void oft_add(const LoraParts& parts, float scale, WeightRows weight) {
  const Blocks blocks = blocks_of(parts);
  const std::vector<float> all = rotations(parts, scale);
  const int64_t columns = weight.columns();
  const int64_t size = blocks.size * columns;
  for (int64_t row = 0; row < weight.count; row += blocks.size) {
    float* own = weight.values.data() + row * columns;
    const std::vector<float> before(own, own + size);
    const float* rotation = all.data() + (weight.first + row) * blocks.size;
    product(blocks.size, columns, blocks.size, 1.0F, {rotation, true}, {before.data()}, 0.0F, own);
  }
  rescale_rows(parts, weight);
}

void boft_add(const LoraParts& parts, float scale, WeightRows weight) {
  const Blocks blocks = blocks_of(parts);
  const std::vector<float> all = rotations(parts, scale);
  const int64_t columns = weight.columns();
  const int64_t n = blocks.size;
  std::vector<float> gathered(static_cast<size_t>(n * columns));
  std::vector<float> rotated(gathered.size());
  for (int64_t stage = 0; stage < blocks.stages; ++stage) {
    const int64_t apart = (int64_t{1} << stage) * (n / 2);  // rows between the two of a pair
    // Place p of the stage's order is row (c, g, a) of the weight with p = (c, a, g).
    const auto row_of = [&](int64_t p) {
      const int64_t c = p / (2 * apart);
      return (2 * c + p % 2) * apart + p / 2 % apart;
    };
    for (int64_t block = 0; block < blocks.count; ++block) {
      const auto row = [&](int64_t i) {
        return weight.values.data() + row_of(block * n + i) * columns;
      };
      for (int64_t i = 0; i < n; ++i) {
        std::copy_n(row(i), columns, gathered.data() + i * columns);
      }
      const float* rotation = all.data() + (stage * blocks.count + block) * n * n;
      product(n, columns, n, 1.0F, {rotation}, {gathered.data()}, 0.0F, rotated.data());
      for (int64_t i = 0; i < n; ++i) {
        std::copy_n(rotated.data() + i * columns, columns, row(i));
      }
    }
  }
  rescale_rows(parts, weight);
}

}  // namespace

// By Gauss and Jordan's elimination with pivots. I - Q of a skew Q is never singular.
std::vector<double> inverse(std::vector<double> a, size_t n) {
  std::vector<double> out(n * n);
  for (size_t i = 0; i < n; ++i) {
    out[i * n + i] = 1;
  }
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < n; ++row) {
      pivot = std::abs(a[row * n + column]) > std::abs(a[pivot * n + column]) ? row : pivot;
    }
    for (size_t j = 0; j < n && pivot != column; ++j) {
      std::swap(a[pivot * n + j], a[column * n + j]);
      std::swap(out[pivot * n + j], out[column * n + j]);
    }
    const double by = a[column * n + column];
    for (size_t j = 0; j < n; ++j) {
      a[column * n + j] /= by;
      out[column * n + j] /= by;
    }
    for (size_t row = 0; row < n; ++row) {
      const double times = row == column ? 0 : a[row * n + column];
      for (size_t j = 0; j < n && times != 0; ++j) {
        a[row * n + j] -= times * a[column * n + j];
        out[row * n + j] -= times * out[column * n + j];
      }
    }
  }
  return out;
}

// W becomes r diag(I + scale (R_b - I))^T W (arXiv:2306.07280), r being `rescale`.
constexpr LoraMethod kOft{.name = "OFT",
                          .marks = kOftMarks,
                          .parts = kOftParts,
                          .size = oft_size,
                          .rank = no_rank,
                          .block = block_rows,
                          .add = oft_add};

// A product of such rotations, each of rows that are further apart (arXiv:2311.06243).
constexpr LoraMethod kBoft{.name = "BOFT",
                           .marks = kOftMarks,
                           .axes = 4,
                           .parts = kOftParts,
                           .size = oft_size,
                           .rank = no_rank,
                           .block = all_rows,
                           .add = boft_add};

}  // namespace kinema::adapters
