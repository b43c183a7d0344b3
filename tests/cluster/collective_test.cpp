#include "kinema/cluster/collective.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kinema/core/error.h"

namespace kinema::cluster {
namespace {

using testing::ElementsAre;
using Operand = pjrt::CollectiveCall::Operand;

std::vector<int32_t> counting(int32_t from, size_t count) {
  std::vector<int32_t> out(count);
  std::iota(out.begin(), out.end(), from);
  return out;
}

template <typename T>
Bytes bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Collective, GathersAlongAMiddleAxis) {
  const std::vector<int32_t> a = counting(0, 4);
  const std::vector<int32_t> b = counting(10, 4);
  std::vector<int32_t> out(8);
  all_gather({bytes(a), bytes(b)}, Operand{{2, 1, 2}, 1}, std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(out, ElementsAre(0, 1, 10, 11, 2, 3, 12, 13));
}

TEST(Collective, ExchangesPiecesAlongAnAxis) {
  const std::vector<int32_t> a = counting(0, 8);
  const std::vector<int32_t> b = counting(10, 8);
  std::vector<int32_t> out(8);
  all_to_all({bytes(a), bytes(b)}, Operand{{2, 4}, 1}, 1, std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(out, ElementsAre(2, 3, 12, 13, 6, 7, 16, 17));
}

TEST(Collective, TakesOnePiece) {
  const std::vector<int32_t> whole = counting(0, 8);
  std::vector<int32_t> out(4);
  take_piece(bytes(whole), Operand{{2, 4}, 1}, 2, 0, std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(out, ElementsAre(0, 1, 4, 5));
}

template <typename T>
std::vector<T> reduced(std::vector<T> a, const std::vector<T>& b, DType dtype,
                       const std::string& reduction) {
  reduce_into(std::as_writable_bytes(std::span(a)), bytes(b), dtype, reduction);
  return a;
}

TEST(Collective, ReducesByEachOperation) {
  EXPECT_THAT(reduced<float>({1, 2}, {3, -4}, DType::F32, "add"), ElementsAre(4, -2));
  EXPECT_THAT(reduced<float>({1, 2}, {3, -4}, DType::F32, "multiply"), ElementsAre(3, -8));
  EXPECT_THAT(reduced<int32_t>({1, 2}, {3, -4}, DType::S32, "maximum"), ElementsAre(3, 2));
  EXPECT_THAT(reduced<int64_t>({1, 2}, {3, -4}, DType::S64, "minimum"), ElementsAre(1, -4));
  EXPECT_THAT(reduced<uint8_t>({1, 1}, {1, 0}, DType::PRED, "and"), ElementsAre(1, 0));
  EXPECT_THAT(reduced<uint32_t>({1, 4}, {2, 0}, DType::U32, "or"), ElementsAre(3, 4));
}

TEST(Collective, AMaximumWithNanIsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string reduction : {"maximum", "minimum"}) {
    const std::vector<float> out = reduced<float>({nan, 1}, {1, nan}, DType::F32, reduction);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1])) << reduction;
  }
}

TEST(Collective, RefusesWhatItCannotReduce) {
  EXPECT_THROW(reduced<uint16_t>({1}, {1}, DType::BF16, "add"), Error);
  EXPECT_THROW(reduced<float>({1}, {1}, DType::F32, "xor"), Error);
  EXPECT_THROW(reduced<float>({1, 2}, {1}, DType::F32, "add"), Error);
}

}  // namespace
}  // namespace kinema::cluster
