#include "kinema/model_files/nf4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"

namespace kinema::model_files {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class FourBits : public testing::Test {
 protected:
  void add(const std::string& name, HostArray array) {
    arrays_.push_back(std::move(array));
    views_.push_back({.name = name, .shape = arrays_.back().shape, .bytes = arrays_.back().bytes});
  }
  static HostArray bytes(const std::vector<uint8_t>& values) {
    return HostArray::from<uint8_t>(DType::U8, {static_cast<int64_t>(values.size())}, values);
  }
  static HostArray text(const std::string& json) { return bytes({json.begin(), json.end()}); }
  std::vector<float> map() const {
    std::vector<float> out;
    for (int i = 0; i < 16; ++i) {
      out.push_back(static_cast<float>(i) / 4 - 2);
    }
    return out;
  }
  /// Four blocks of two values.
  void add_weight() {
    add("x.weight", bytes({0x01, 0x2f, 0x84, 0xfe}));
    add("x.weight.quant_map", HostArray::f32({16}, map()));
  }
  void add_state(const std::string& more = "") {
    add("x.weight.quant_state.bitsandbytes__nf4",
        text(R"({"quant_type": "nf4", "blocksize": 2, "shape": [2, 4])" + more + "}"));
  }
  std::vector<const io::TensorView*> views() const {
    std::vector<const io::TensorView*> out;
    for (const io::TensorView& view : views_) {
      out.push_back(&view);
    }
    return out;
  }

  std::deque<HostArray> arrays_;
  std::deque<io::TensorView> views_;
};

TEST_F(FourBits, AreCodesTimesTheScaleOfTheirBlock) {
  add_weight();
  add("x.weight.absmax", HostArray::f32({4}, std::vector<float>{1, 2, 4, 8}));
  add_state();
  const FourBitWeights weights(views(), "x.safetensors");
  const io::TensorView* made = weights.decoded("x.weight");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->shape, (Shape{DType::F32, {2, 4}}));
  const HostArray values = made->copy();
  const std::vector<float> m = map();
  const std::vector<float> want{m[0],     m[1],     2 * m[2],  2 * m[15],
                                4 * m[8], 4 * m[4], 8 * m[15], 8 * m[14]};
  EXPECT_TRUE(std::ranges::equal(values.as<float>(), want));
  EXPECT_TRUE(weights.is_beside("x.weight.absmax"));
  EXPECT_FALSE(weights.is_beside("x.weight"));
  // Moments of 8 bits have such a name too.
  EXPECT_FALSE(weights.is_beside("y.weight.absmax"));
}

TEST_F(FourBits, ScalesMayBeCodesToo) {
  add_weight();
  std::vector<float> outer_map(256);
  for (size_t i = 0; i < outer_map.size(); ++i) {
    outer_map[i] = static_cast<float>(i) / 8;
  }
  add("x.weight.absmax", bytes({8, 16, 24, 32}));
  add("x.weight.nested_quant_map", HostArray::f32({256}, outer_map));
  add("x.weight.nested_absmax", HostArray::f32({2}, std::vector<float>{1, 3}));
  add_state(R"(, "nested_blocksize": 2, "nested_offset": 0.5)");
  const FourBitWeights weights(views(), "x.safetensors");
  const HostArray values = weights.decoded("x.weight")->copy();
  const std::vector<float> m = map();
  const std::vector<float> want{1.5F * m[0], 1.5F * m[1], 2.5F * m[2],   2.5F * m[15],
                                9.5F * m[8], 9.5F * m[4], 12.5F * m[15], 12.5F * m[14]};
  EXPECT_TRUE(std::ranges::equal(values.as<float>(), want));
}

TEST_F(FourBits, PartsMustFit) {
  add_weight();
  add_state();
  EXPECT_THAT([&] { FourBitWeights(views(), "x.safetensors"); },
              ThrowsMessage<Error>(HasSubstr("`x.weight` has no `x.weight.absmax`")));
  add("x.weight.absmax", HostArray::f32({3}, std::vector<float>{1, 2, 4}));
  EXPECT_THAT([&] { FourBitWeights(views(), "x.safetensors"); },
              ThrowsMessage<Error>(HasSubstr("3 scales of 2 values, which do not fit")));
}

}  // namespace
}  // namespace kinema::model_files
