#include "kinema/adapters/lora_method.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/safetensors.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/lora_key.h"
#include "networks/wan.h"

namespace kinema::adapters {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

/// The part that a file's key with this ending is.
LoraPart part_of(const std::string& ending) {
  return weights::read_lora_key("lora_unet_blocks_0_self_attn_q." + ending).value().part;
}

// ---- Against numbers computed by hand ------------------------------------------------------

class ByHand : public testing::Test {
 protected:
  void put(LoraPart part, Dims dims, std::vector<float> values) {
    arrays_.push_back(HostArray::f32(std::move(dims), values));
    views_.push_back({.name = "x", .shape = arrays_.back().shape, .bytes = arrays_.back().bytes});
    parts_[static_cast<size_t>(part)] = &views_.back();
  }
  /// The weight [rows, values / rows] after the change.
  std::vector<float> changed(int64_t rows, int64_t inputs, std::vector<float> values,
                             double scale = 1, double factor = 1) {
    const LoraMethod* method = method_of(parts_);
    change_weight(*method, parts_, factor, scale,
                  {.first = 0, .count = rows, .inputs = inputs, .values = values});
    return values;
  }

  std::deque<HostArray> arrays_;
  std::deque<io::TensorView> views_;
  LoraParts parts_{};
};

TEST_F(ByHand, LohaIsTheProductByElementsOfTwoLowRankMatrices) {
  put(LoraPart::HADA_W1_A, {2, 1}, {1, 2});
  put(LoraPart::HADA_W1_B, {1, 2}, {3, 4});
  put(LoraPart::HADA_W2_A, {2, 1}, {5, 6});
  put(LoraPart::HADA_W2_B, {1, 2}, {1, -1});
  // [[3, 4], [6, 8]] * [[5, -5], [6, -6]] = [[15, -20], [36, -48]]
  EXPECT_THAT(changed(2, 2, {1, 1, 1, 1}, 0.5, 2), ElementsAre(16, -19, 37, -47));
}

TEST_F(ByHand, LokrIsTheKroneckerProduct) {
  put(LoraPart::LOKR_W1, {2, 1}, {1, 10});
  put(LoraPart::LOKR_W2_A, {1, 1}, {2});
  put(LoraPart::LOKR_W2_B, {1, 2}, {3, 4});
  EXPECT_THAT(changed(2, 2, {0, 0, 0, 0}), ElementsAre(6, 8, 60, 80));
}

TEST_F(ByHand, DoraOfKohyaIsAShareOfTheRescaledWeight) {
  put(LoraPart::DOWN, {1, 2}, {1, 1});
  put(LoraPart::UP, {2, 1}, {2, 3});
  put(LoraPart::DORA_SCALE, {2, 1}, {10, 1});
  // V = [[1 + 2, 2 + 2], [0 + 3, 1 + 3]], rows of norm 5
  EXPECT_THAT(changed(2, 2, {1, 2, 0, 1}),
              Pointwise(FloatNear(1e-5F), std::vector<float>{6, 8, 0.6F, 0.8F}));
  EXPECT_THAT(changed(2, 2, {1, 2, 0, 1}, 0.5),
              Pointwise(FloatNear(1e-5F), std::vector<float>{3.5F, 5, 0.3F, 0.9F}));
}

TEST_F(ByHand, DoraOfPeftHasTheNormsAtEveryStrength) {
  put(LoraPart::DOWN, {1, 2}, {1, 1});
  put(LoraPart::UP, {1, 1}, {4});
  put(LoraPart::MAGNITUDE, {1}, {10});
  // V = [1 + 0.5 * 4, 2 + 0.5 * 4]
  EXPECT_THAT(changed(1, 2, {1, 2}, 0.5), Pointwise(FloatNear(1e-5F), std::vector<float>{6, 8}));
}

TEST_F(ByHand, DoraOfColumnsHasANormOfEachInput) {
  put(LoraPart::DOWN, {1, 2}, {0, 0});
  put(LoraPart::UP, {2, 1}, {0, 0});
  put(LoraPart::DORA_SCALE, {1, 2}, {5, 2});
  EXPECT_THAT(changed(2, 2, {3, 0, 4, 7}),
              Pointwise(FloatNear(1e-5F), std::vector<float>{3, 0, 4, 2}));
}

TEST_F(ByHand, OftRotatesRows) {
  // Q = [[0, 1], [-1, 0]] gives R = (I + Q)(I - Q)^-1 = [[0, 1], [-1, 0]].
  put(LoraPart::OFT_BLOCKS, {1, 2, 2}, {0, 1, 0, 0});
  EXPECT_THAT(changed(2, 2, {1, 2, 3, 4}),
              Pointwise(FloatNear(1e-6F), std::vector<float>{-3, -4, 1, 2}));
}

// Two blocks with q = 0.5: I + 2 Q + 2 Q^2 + 2 Q^3 + Q^4 = [[0.5625, 0.75], [-0.75, 0.5625]].
TEST_F(ByHand, OftOfPeftRotatesInputs) {
  put(LoraPart::OFT_TRIANGLES, {2, 1}, {0.5, 0});
  EXPECT_THAT(changed(1, 4, {1, 2, 3, 4}), ElementsAre(2.0625, 0.375, 3, 4));
  EXPECT_THAT(changed(1, 4, {1, 2, 3, 4}, 0.5), ElementsAre(1.53125, 1.1875, 3, 4));
}

TEST_F(ByHand, OftOfPeftMayShareItsBlockAndBeExact) {
  put(LoraPart::OFT_TRIANGLES, {1, 1}, {0.5});
  EXPECT_THAT(changed(1, 4, {1, 2, 0, 1}), ElementsAre(2.0625, 0.375, 0.75, 0.5625));
  std::vector<float> values{1, 2, 0, 1};
  kExactPeftOft.add(parts_, 1, {.first = 0, .count = 1, .inputs = 4, .values = values});
  EXPECT_THAT(values, ElementsAre(FloatEq(-1), FloatEq(2), FloatEq(-0.8F), FloatEq(0.6F)));
  EXPECT_THAT([&] { changed(1, 3, {1, 2, 3}); }, ThrowsMessage<Error>(HasSubstr("blocks of 2")));
}

TEST_F(ByHand, Ia3ScalesRowsOrColumns) {
  put(LoraPart::IA3_WEIGHT, {2}, {1, 0});
  put(LoraPart::IA3_INPUT, {}, {1});
  EXPECT_THAT(changed(2, 2, {1, 2, 3, 4}, 0.5), ElementsAre(1.5F, 2, 4.5F, 4));
  put(LoraPart::IA3_INPUT, {}, {0});
  EXPECT_THAT(changed(2, 2, {1, 2, 3, 4}), ElementsAre(2, 4, 3, 4));
}

TEST_F(ByHand, GloraChangesInputsAndTheWeight) {
  put(LoraPart::GLORA_A1, {2, 1}, {1, 0});
  put(LoraPart::GLORA_A2, {1, 2}, {0, 2});
  put(LoraPart::GLORA_B1, {2, 1}, {1, 1});
  put(LoraPart::GLORA_B2, {1, 2}, {5, 0});
  // W a1 a2 = [[1], [3]] [0, 2]
  EXPECT_THAT(changed(2, 2, {1, 2, 3, 4}), ElementsAre(6, 4, 8, 10));
}

TEST_F(ByHand, TensorsThatDoNotFitTogetherAreRefused) {
  put(LoraPart::HADA_W1_A, {2, 1}, {1, 2});
  put(LoraPart::HADA_W1_B, {1, 2}, {3, 4});
  put(LoraPart::HADA_W2_A, {2, 2}, {5, 6, 7, 8});
  EXPECT_THAT([&] { kinema::adapters::method_of(parts_)->size(parts_); },
              ThrowsMessage<Error>(HasSubstr("has no hada_w2_b")));
  put(LoraPart::HADA_W2_B, {1, 2}, {1, -1});
  EXPECT_THAT([&] { kinema::adapters::method_of(parts_)->size(parts_); },
              ThrowsMessage<Error>(HasSubstr("do not fit together")));
  put(LoraPart::LOKR_W1, {1, 1}, {1});
  EXPECT_THAT([&] { kinema::adapters::method_of(parts_); },
              ThrowsMessage<Error>(HasSubstr("does not belong to LoHa")));
}

// ---- Against LyCORIS and PEFT --------------------------------------------------------------

/// The cases of tools/golden/adapter_methods.py.
std::vector<std::string> golden_cases() {
  std::vector<std::string> out;
  const auto file = io::SafetensorsFile::open(io::golden("lora/methods.safetensors"));
  for (const io::TensorView& tensor : file.tensors()) {
    if (tensor.name.ends_with("/base")) {
      out.push_back(tensor.name.substr(0, tensor.name.find('/')));
    }
  }
  return out;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, WeightsAreThoseOfTheOtherProgram) {
  const auto file = io::SafetensorsFile::open(io::golden("lora/methods.safetensors"));
  std::map<std::string, const io::TensorView*> other;
  LoraParts parts{};
  for (const io::TensorView& tensor : file.tensors()) {
    const std::string prefix = GetParam() + "/";
    if (tensor.name.starts_with(prefix + "x.")) {
      parts[static_cast<size_t>(part_of(tensor.name.substr(prefix.size() + 2)))] = &tensor;
    } else if (tensor.name.starts_with(prefix)) {
      other[tensor.name.substr(prefix.size())] = &tensor;
    }
  }
  const LoraMethod* method = method_of(parts);
  ASSERT_NE(method, nullptr);
  const Dims& dims = other.at("base")->shape.dims;
  const WeightSize size = method->size(parts);
  const int64_t columns = other.at("base")->shape.elements() / dims[0];
  EXPECT_TRUE(size.rows == 0 || size.rows == dims[0]);
  EXPECT_TRUE(size.columns == 0 || size.columns == columns);
  EXPECT_TRUE(size.inputs == 0 || size.inputs == dims[1]);
  const int64_t rank = method->rank(parts);
  const io::TensorView* alpha = parts[static_cast<size_t>(LoraPart::ALPHA)];
  const double factor =
      rank == 0 || alpha == nullptr ? 1 : number_of(*alpha) / static_cast<double>(rank);
  for (const auto& [name, scale] : {std::pair("merged", 1.0), std::pair("half", 0.5)}) {
    HostArray weight = other.at("base")->copy();
    change_weight(*method, parts, factor, scale,
                  {.first = 0, .count = dims[0], .inputs = dims[1], .values = weight.as<float>()});
    const HostArray expected = other.at(name)->copy();
    float largest = 0;
    float difference = 0;
    for (size_t i = 0; i < expected.as<float>().size(); ++i) {
      largest = std::max(largest, std::abs(expected.as<float>()[i]));
      difference = std::max(difference, std::abs(expected.as<float>()[i] - weight.as<float>()[i]));
    }
    // Sums of some ten products, and inverses of well-conditioned blocks, in f32.
    EXPECT_LE(difference, 2e-6F * largest) << name;
    EXPECT_NE(weight.bytes, other.at("base")->copy().bytes);
    // A block of rows alone is changed in the same way.
    const int64_t block = method->block(parts);
    if (dims[0] % (2 * block) == 0 &&
        !(is_dora(parts) && norms_are_of_columns(parts, {dims[0], columns, dims[1]}))) {
      HostArray half = other.at("base")->copy();
      const int64_t first = dims[0] / 2;
      change_weight(*method, parts, factor, scale,
                    {.first = first,
                     .count = dims[0] - first,
                     .inputs = dims[1],
                     .values = half.as<float>().subspan(static_cast<size_t>(first * columns))});
      for (size_t i = static_cast<size_t>(first * columns); i < half.as<float>().size(); ++i) {
        ASSERT_NEAR(half.as<float>()[i], weight.as<float>()[i], 2e-6F * largest);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LyCORIS, Golden, testing::ValuesIn(golden_cases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kinema::adapters
