#include "kinema/text/hashed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kinema/core/error.h"

namespace kinema::text {
namespace {

using ::testing::ElementsAre;

std::vector<float> row(const HostArray& states, int64_t i) {
  const int64_t width = states.shape.dims[1];
  const auto all = states.as<float>();
  return {all.begin() + i * width, all.begin() + (i + 1) * width};
}

// The word's vector: the state without the position's sinusoid.
std::vector<float> word_vector(const HostArray& states, int64_t position) {
  std::vector<float> out = row(states, position);
  const auto d = static_cast<double>(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const double rate = std::pow(10000.0, -static_cast<double>(i / 2 * 2) / d);
    const double angle = static_cast<double>(position) * rate;
    out[i] -= static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
  }
  return out;
}

TEST(HashedEncoder, SplitsIntoLowerCasedWords) {
  EXPECT_THAT(words("A RED circle, moving-up!"), ElementsAre("a", "red", "circle", "moving", "up"));
  EXPECT_THAT(words(" ,. "), ElementsAre());
}

TEST(HashedEncoder, GivesAWordTheSameVectorInEveryPosition) {
  const HashedEncoder encoder{.max_sequence_length = 6, .text_dim = 32};

  const auto first = word_vector(encoder.encode("red circle"), 0);
  const auto third = word_vector(encoder.encode("a big Red circle"), 2);
  const auto other = word_vector(encoder.encode("blue circle"), 0);

  double distance = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(first[i], third[i], 1e-6);  // one rounding of a sum of two numbers of size 1
    distance += std::abs(first[i] - other[i]);
  }
  EXPECT_GT(distance, 10);
}

TEST(HashedEncoder, PadsWithZerosAndCutsLongCaptions) {
  const HashedEncoder encoder{.max_sequence_length = 3, .text_dim = 4};

  const HostArray shorter = encoder.encode("one");
  EXPECT_THAT(row(shorter, 1), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(encoder.encode("one two three four").bytes, encoder.encode("one two three").bytes);
  EXPECT_EQ(encoder.encode("").bytes, HostArray(Shape{DType::F32, {3, 4}}).bytes);
}

TEST(HashedEncoder, HasUnitVariance) {
  const HashedEncoder encoder{.max_sequence_length = 1, .text_dim = 4096};
  double sum = 0;
  for (const float x : word_vector(encoder.encode("word"), 0)) {
    sum += static_cast<double>(x) * x;
  }
  // The mean of 4096 squares of N(0, 1) has a standard deviation of sqrt(2 / 4096) = 0.022.
  EXPECT_NEAR(sum / 4096, 1.0, 0.1);
}

}  // namespace
}  // namespace kinema::text
