// BF16 products in matrix tiles, and exponentials rounded to BF16, against direct computation.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "kinema/kernels/cpu/amx_product.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/float_loops.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/cpu/rounded_exponentials.h"
#include "kinema/kernels/cpu/tile_product.h"

namespace kinema::kernels {
namespace {

/// Small integers, for which F32 sums of products are exact.
std::vector<uint16_t> whole_numbers(int64_t count) {
  static std::mt19937 random(7);
  std::uniform_int_distribution<int> any(-8, 8);
  std::vector<uint16_t> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(
        static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(any(random))) >> 16));
  }
  return out;
}

float value(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

struct Size {
  int64_t m, k, n;
};

void expect_product(const Size& s, bool transposed, bool adds) {
  SCOPED_TRACE(::testing::Message() << s.m << " x " << s.k << " x " << s.n << " transposed "
                                    << transposed << " adds " << adds);
  const int64_t a_m = s.k + 8;
  const int64_t c_m = s.n + 4;
  const std::vector<uint16_t> a = whole_numbers(s.m * a_m);
  const std::vector<uint16_t> b = whole_numbers(s.k * s.n);
  const int64_t b_k = transposed ? 1 : s.n;
  const int64_t b_n = transposed ? s.k : 1;
  Buffer packed;
  auto* tiles = reinterpret_cast<uint16_t*>(packed.at_least(static_cast<size_t>(2 * s.k * s.n)));
  pack_tiles(b.data(), s.k, s.n, b_k, b_n, tiles);
  std::vector<float> c(static_cast<size_t>(s.m * c_m), 3.0F);
  multiply_tiles(s.m, s.k, s.n, a.data(), a_m, tiles, c.data(), c_m, adds);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < c_m; ++j) {
      float want = adds || j >= s.n ? 3.0F : 0.0F;
      for (int64_t at = 0; at < s.k && j < s.n; ++at) {
        want += value(a[static_cast<size_t>(i * a_m + at)]) *
                value(b[static_cast<size_t>(at * b_k + j * b_n)]);
      }
      ASSERT_EQ(c[static_cast<size_t>(i * c_m + j)], want) << i << ", " << j;
    }
  }
}

TEST(TileProduct, EqualsTheSumsWrittenOut) {
  if (isa() < Isa::Amx) {
    GTEST_SKIP() << "this processor has no matrix tiles";
  }
  for (const int64_t m : {1, 15, 16, 17, 32, 33, 48, 63, 70}) {
    for (const Size& s : {Size{m, 32, 16}, Size{m, 64, 32}, Size{m, 96, 48}, Size{m, 160, 80}}) {
      for (const bool transposed : {false, true}) {
        expect_product(s, transposed, false);
        expect_product(s, transposed, true);
      }
    }
  }
}

/// A product with strided rows, and its operands.
struct Shared {
  StridedDot dot;
  std::vector<uint16_t> a, b;
  std::vector<float> bias;

  Shared(const Size& s, bool a_transposed, bool b_transposed, int64_t apart = 0)
      : dot{.m = s.m,
            .n = s.n,
            .k = s.k,
            .a_m = a_transposed ? 1 : s.k + apart,
            .a_k = a_transposed ? s.m : 1,
            .b_k = b_transposed ? 1 : s.n,
            .b_n = b_transposed ? s.k : 1,
            .c_m = s.n,
            .c_n = 1},
        a(whole_numbers(s.m * (s.k + apart))),
        b(whole_numbers(s.k * s.n)) {
    for (const uint16_t each : whole_numbers(s.n)) {
      bias.push_back(value(each));
    }
  }

  std::vector<char> product(DType out, int64_t threads) const {
    std::vector<char> c(static_cast<size_t>(dot.m * dot.n * byte_size(out)));
    matrix_product(dot, DType::BF16, out, a.data(), b.data(), bias.data(), c.data(), threads,
                   [](int64_t count, const std::function<void(int64_t)>& task) {
                     for (int64_t i = 0; i < count; ++i) {
                       task(i);
                     }
                   });
    return c;
  }

  float sum(int64_t i, int64_t j) const {
    float out = bias[static_cast<size_t>(j)];
    for (int64_t k = 0; k < dot.k; ++k) {
      out += value(a[static_cast<size_t>(i * dot.a_m + k * dot.a_k)]) *
             value(b[static_cast<size_t>(k * dot.b_k + j * dot.b_n)]);
    }
    return out;
  }
};

TEST(SharedTileProduct, EqualsTheSumsWrittenOut) {
  if (isa() < Isa::Amx) {
    GTEST_SKIP() << "this processor has no matrix tiles";
  }
  for (const Size& s : {Size{64, 32, 16}, Size{336, 544, 80}, Size{48, 1056, 528}}) {
    for (const auto& [a_transposed, b_transposed, apart] :
         {std::tuple{false, false, 0}, std::tuple{false, true, 5000}, std::tuple{true, true, 0}}) {
      SCOPED_TRACE(::testing::Message() << s.m << " x " << s.k << " x " << s.n << ", "
                                        << a_transposed << b_transposed << apart);
      const Shared given(s, a_transposed, b_transposed, apart);
      ASSERT_TRUE(has_shared_tiles(given.dot, DType::BF16));
      const std::vector<char> wide = given.product(DType::F32, 3);
      const std::vector<char> rounded = given.product(DType::BF16, 3);
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          const float want = given.sum(i, j);
          uint16_t narrow = 0;
          to_bf16(&want, 1, 1.0F, &narrow);
          ASSERT_EQ(reinterpret_cast<const float*>(wide.data())[i * s.n + j], want)
              << i << ", " << j;
          ASSERT_EQ(reinterpret_cast<const uint16_t*>(rounded.data())[i * s.n + j], narrow);
        }
      }
    }
  }
}

TEST(SharedTileProduct, GivesTheSameBitsWithAnyNumberOfThreads) {
  if (isa() < Isa::Amx) {
    GTEST_SKIP() << "this processor has no matrix tiles";
  }
  Shared given({700, 1600, 1040}, false, true);
  for (uint16_t& each : given.a) {
    each = static_cast<uint16_t>(each ^ (each * 37U & 0x3FU));  // no longer integers
  }
  const std::vector<char> one = given.product(DType::BF16, 1);
  for (const int64_t threads : {2, 3, 16}) {
    EXPECT_EQ(given.product(DType::BF16, threads), one) << threads;
  }
}

TEST(RoundedExponentials, EqualTheExponentialsOfEachScore) {
  if (!has_rounded_exponentials()) {
    GTEST_SKIP() << "this processor does not round to BF16";
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 15, 16, 31, 32, 47, 77, 1024}) {
    for (const float largest : {0.0F, 12.5F, -1e9F, 1e9F}) {
      std::vector<float> scores;
      for (int64_t i = 0; i < n; ++i) {
        scores.push_back(4.0F * (largest - static_cast<float>(i % 90)));
      }
      if (n > 16) {
        scores[16] = -kInfinity;
      }
      std::vector<uint16_t> weights(static_cast<size_t>(n + 1), 0x4242);
      const float sum = rounded_exponentials(scores.data(), n, 0.25F, largest, weights.data());
      double total = 0;
      for (size_t i = 0; i < scores.size(); ++i) {
        const double x = static_cast<double>(scores[i]) * 0.25 - static_cast<double>(largest);
        const double want = x < -87.3 ? 0.0 : std::exp(x);
        total += want;
        EXPECT_NEAR(value(weights[i]), want, want * (0x1p-8 + 0x1p-16)) << i << " of " << n;
      }
      EXPECT_NEAR(sum, total, total * 0x1p-16);
      EXPECT_EQ(weights.back(), 0x4242) << "after the last";
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores(20, nan);
  std::vector<uint16_t> weights(20);
  EXPECT_TRUE(std::isnan(rounded_exponentials(scores.data(), 20, 1.0F, 0.0F, weights.data())));
  EXPECT_TRUE(std::isnan(value(weights[0])) && std::isnan(value(weights[19])));
}

}  // namespace
}  // namespace kinema::kernels
