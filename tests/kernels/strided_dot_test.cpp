#include "kinema/kernels/cpu/strided_dot.h"

#include <gtest/gtest.h>

namespace kinema::kernels {
namespace {

TEST(StridedDot, MergesTokensAndReadsWeightsAsStored) {
  const Dims x{2, 5, 8};
  const Dims w{16, 8};  // [out, in]

  const auto dot = strided_dot(x, dense_strides(x), w, dense_strides(w), dense_strides({2, 5, 16}),
                               {.lhs_contract = {2}, .rhs_contract = {1}});

  ASSERT_TRUE(dot.has_value());
  EXPECT_EQ(to_words(*dot), (std::vector<int64_t>{10, 16, 8, 8, 1, 1, 8, 16, 1}));
  EXPECT_EQ(dot->flops(), 2.0 * 10 * 16 * 8);
}

TEST(StridedDot, ReadsAttentionHeadsWithoutTransposing) {
  const Dims q{2, 7, 3, 4};  // [b, s, n, d], batch axes b and n

  const auto dot = strided_dot(
      q, dense_strides(q), q, dense_strides(q), dense_strides({2, 3, 7, 7}),
      {.lhs_contract = {3}, .rhs_contract = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}});

  ASSERT_TRUE(dot.has_value());
  EXPECT_EQ(dot->a_m, 12);  // from token to token
  EXPECT_EQ(dot->a_k, 1);
  ASSERT_EQ(dot->batch.size(), 2);
  EXPECT_EQ(dot->batch[0].a, 7 * 3 * 4);
  EXPECT_EQ(dot->batch[1].a, 4);
  EXPECT_EQ(dot->batch[1].c, 49);
}

TEST(StridedDot, LeavesProductsWhoseRowsLieAtNoSingleStride) {
  const Dims x{2, 5, 8};  // rows (0, 2) around the contracted axis 1

  const auto dot = strided_dot(x, dense_strides(x), {5, 3}, {3, 1}, dense_strides({2, 8, 3}),
                               {.lhs_contract = {1}, .rhs_contract = {0}});

  EXPECT_FALSE(dot.has_value());
}

TEST(StridedDot, SurvivesTheTripThroughAnAttribute) {
  StridedDot dot{1, 2, 3, 4, 5, 6, 7, 8, 9, {{10, 11, 12, 13}}};
  const std::vector<int64_t> words = to_words(dot);

  EXPECT_EQ(to_words(from_words(words.data(), static_cast<int64_t>(words.size()))), words);
  EXPECT_ANY_THROW(from_words(words.data(), 10));
}

}  // namespace
}  // namespace kinema::kernels
