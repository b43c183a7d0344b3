#include "kinema/core/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace kinema {
namespace {

class Finite : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, Finite,
                         testing::Values(DType::F64, DType::F32, DType::BF16, DType::F16,
                                         DType::F8E5M2, DType::F8E4M3FN),
                         [](const auto& which) { return std::string(to_string(which.param)); });

TEST_P(Finite, FindsAValueWhereverItIs) {
  constexpr int64_t kMany = 5000;  // more than one block
  HostArray values(Shape{DType::F32, {kMany}});
  for (size_t i = 0; i < values.as<float>().size(); ++i) {
    values.as<float>()[i] = (i % 2 == 0 ? 1.0F : -400.0F);  // about the largest value of every type
  }
  EXPECT_TRUE(all_finite(convert(values, GetParam())));
  for (const size_t where : {size_t{0}, size_t{4095}, size_t{4096}, size_t{kMany - 1}}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      HostArray damaged = values;
      damaged.as<float>()[where] = bad;
      EXPECT_FALSE(all_finite(convert(damaged, GetParam()))) << where << " " << bad;
    }
  }
}

TEST(Finite, IsEveryInteger) {
  HostArray values(Shape{DType::S32, {2}});
  values.as<int32_t>()[0] = -1;  // all bits set
  EXPECT_TRUE(all_finite(values));
}

}  // namespace
}  // namespace kinema
