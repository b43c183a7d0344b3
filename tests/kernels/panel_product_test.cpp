#include "kinema/kernels/cpu/panel_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kinema/core/bf16.h"
#include "kinema/kernels/cpu/isa.h"

namespace kinema::kernels {
namespace {

/// A matrix in a buffer of exactly its size, so that a sanitizer detects reads past its end.
struct Matrix {
  DType dtype;
  int64_t rows, columns;
  bool by_columns;
  std::vector<char> bytes;

  Matrix(DType type, int64_t height, int64_t width, bool columns_first, uint32_t seed)
      : dtype(type),
        rows(height),
        columns(width),
        by_columns(columns_first),
        bytes(static_cast<size_t>(height * width * byte_size(type))) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < height * width; ++i) {
      const float value = normal(generator);
      if (dtype == DType::BF16) {
        at<uint16_t>(i) = f32_to_bf16(value);
      } else {
        at<float>(i) = value;
      }
    }
  }
  int64_t row_stride() const { return by_columns ? 1 : columns; }
  int64_t column_stride() const { return by_columns ? rows : 1; }
  double value(int64_t row, int64_t column) const {
    const int64_t i = row * row_stride() + column * column_stride();
    return dtype == DType::BF16 ? bf16_to_f32(at<uint16_t>(i)) : at<float>(i);
  }

 private:
  template <typename T>
  T& at(int64_t i) const {
    return const_cast<T&>(reinterpret_cast<const T*>(bytes.data())[i]);
  }
};

class PanelProduct : public ::testing::Test {
 protected:
  void SetUp() override {
    if (isa() < Isa::Avx2) {
      GTEST_SKIP() << "this processor has no AVX2";
    }
  }

  static Matrix multiply(const Matrix& a, const Matrix& b, DType out) {
    Matrix c(out, a.rows, b.columns, false, 0);
    panel_product({a.rows,
                   b.columns,
                   a.columns,
                   a.row_stride(),
                   a.column_stride(),
                   b.row_stride(),
                   b.column_stride(),
                   b.columns,
                   1,
                   {}},
                  a.dtype, b.dtype, out, a.bytes.data(), b.bytes.data(), c.bytes.data());
    return c;
  }

  static void expect_close(const Matrix& a, const Matrix& b, DType out) {
    const Matrix c = multiply(a, b, out);
    const auto k = static_cast<double>(a.columns);
    for (int64_t row = 0; row < c.rows; ++row) {
      for (int64_t column = 0; column < c.columns; ++column) {
        double sum = 0;
        double sizes = 0;
        for (int64_t i = 0; i < a.columns; ++i) {
          sum += a.value(row, i) * b.value(i, column);
          sizes += std::abs(a.value(row, i) * b.value(i, column));
        }
        // k additions in f32, each with an error of 2^-24 of a sum no larger than `sizes`; rounding
        // to the 8 bits of bf16 then adds at most 2^-8 of the value.
        const double added = k * 0x1p-24 * sizes;
        const double bound = added + (out == DType::BF16 ? 0x1p-8 * (std::abs(sum) + added) : 0);
        ASSERT_LE(std::abs(c.value(row, column) - sum), bound)
            << a.rows << " x " << b.columns << " x " << a.columns << " at " << row << ", "
            << column;
      }
    }
  }
};

TEST_F(PanelProduct, IsTheProductForEveryLayoutDtypeAndEdge) {
  // m, n, k: single rows and columns; around the tiles (6 x 16 and 8 x 48) and the vectors of 8;
  // past the blocks of k (256), of rows (192, 1024) and of columns (768).
  const std::vector<std::array<int64_t, 3>> sizes{
      {1, 1, 1},    {1, 17, 300}, {23, 1, 9},     {6, 16, 8},    {8, 48, 256},
      {7, 49, 257}, {37, 45, 29}, {200, 33, 513}, {1030, 20, 5}, {5, 790, 12}};
  uint32_t seed = 1;
  for (const auto& [m, n, k] : sizes) {
    for (const bool a_by_columns : {false, true}) {
      for (const bool b_by_columns : {false, true}) {
        for (const DType dtype : {DType::F32, DType::BF16}) {
          const Matrix a(dtype, m, k, a_by_columns, seed++);
          const Matrix b(dtype, k, n, b_by_columns, seed++);
          expect_close(a, b, DType::F32);
          expect_close(a, b, DType::BF16);
        }
      }
    }
  }
}

TEST_F(PanelProduct, TakesOperandsOfTwoDtypes) {
  expect_close(Matrix(DType::F32, 30, 70, false, 1), Matrix(DType::BF16, 70, 40, false, 2),
               DType::F32);
  expect_close(Matrix(DType::BF16, 30, 70, false, 3), Matrix(DType::F32, 70, 40, true, 4),
               DType::BF16);
}

TEST_F(PanelProduct, OfBf16IsTheProductOfTheWidenedOperandsBitForBit) {
  const Matrix a(DType::BF16, 50, 300, false, 1);
  const Matrix b(DType::BF16, 300, 70, true, 2);
  const auto widened = [](const Matrix& x) {
    Matrix wide(DType::F32, x.rows, x.columns, x.by_columns, 0);
    for (size_t i = 0; i < x.bytes.size() / 2; ++i) {
      reinterpret_cast<float*>(wide.bytes.data())[i] =
          bf16_to_f32(reinterpret_cast<const uint16_t*>(x.bytes.data())[i]);
    }
    return wide;
  };
  EXPECT_EQ(multiply(a, b, DType::F32).bytes, multiply(widened(a), widened(b), DType::F32).bytes);
}

TEST_F(PanelProduct, OfSomeRowsHasTheBitsOfTheWhole) {
  const Matrix a(DType::BF16, 64, 400, false, 1);
  const Matrix b(DType::BF16, 400, 50, false, 2);
  const Matrix whole = multiply(a, b, DType::F32);
  Matrix some(DType::BF16, 11, 400, false, 0);
  constexpr int64_t kFirst = 29;
  std::copy_n(a.bytes.begin() + kFirst * 400 * 2, some.bytes.size(), some.bytes.begin());
  const Matrix part = multiply(some, b, DType::F32);
  EXPECT_TRUE(
      std::equal(part.bytes.begin(), part.bytes.end(), whole.bytes.begin() + kFirst * 50 * 4));
}

TEST_F(PanelProduct, LeavesWhatLiesBetweenRowsOfTheResult) {
  const Matrix a(DType::BF16, 13, 20, false, 1);
  const Matrix b(DType::BF16, 20, 19, false, 2);
  for (const DType out : {DType::F32, DType::BF16}) {
    std::vector<char> c(static_cast<size_t>(13 * 25 * byte_size(out)), 'x');
    panel_product({13, 19, 20, 20, 1, 19, 1, 25, 1, {}}, DType::BF16, DType::BF16, out,
                  a.bytes.data(), b.bytes.data(), c.data());
    for (int64_t row = 0; row < 13; ++row) {
      for (int64_t i = (row * 25 + 19) * byte_size(out); i < (row + 1) * 25 * byte_size(out); ++i) {
        ASSERT_EQ(c[static_cast<size_t>(i)], 'x') << "row " << row;
      }
    }
  }
}

TEST_F(PanelProduct, KeepsInfinityAndNotANumber) {
  Matrix a(DType::F32, 7, 9, false, 1);
  Matrix b(DType::F32, 9, 17, false, 2);
  reinterpret_cast<float*>(a.bytes.data())[0] = INFINITY;
  reinterpret_cast<float*>(a.bytes.data())[9] = NAN;
  const Matrix c = multiply(a, b, DType::BF16);
  for (int64_t column = 0; column < 17; ++column) {
    EXPECT_TRUE(std::isinf(c.value(0, column)));
    EXPECT_TRUE(std::isnan(c.value(1, column)));
    EXPECT_TRUE(std::isfinite(c.value(2, column)));
  }
}

}  // namespace
}  // namespace kinema::kernels
