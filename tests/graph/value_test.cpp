#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "graph/evaluate.h"
#include "kinema/core/bf16.h"
#include "kinema/core/f8.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"

namespace kinema {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class Values : public pjrt::CpuTest {
 protected:
  Graph graph_;
  std::vector<HostArray> arrays_;
  std::vector<Tensor> outputs_;
  std::vector<std::function<void(const HostArray&)>> checks_;

  Tensor f32(Dims dims, std::vector<float> values) {
    return add(HostArray::f32(std::move(dims), values));
  }
  Tensor s32(Dims dims, std::vector<int32_t> values) {
    return add(HostArray::from<int32_t>(DType::S32, std::move(dims), values));
  }
  Tensor bf16(Dims dims, const std::vector<float>& values) {
    return add(convert(HostArray::f32(std::move(dims), values), DType::BF16));
  }
  Tensor add(HostArray array) {
    arrays_.push_back(std::move(array));
    return graph_.input(arrays_.back().shape);
  }

  // Adds a check; all checks of a test run as one program. Floating-point results are returned in
  // their own dtype, since the compiler may skip a rounding that is followed by a conversion to
  // F32.
  void expect(const char* what, Tensor y, std::vector<float> values, float tolerance = 0.0F) {
    outputs_.push_back(is_float(y.dtype()) ? y : convert(y, DType::F32));
    checks_.push_back([what = std::string(what), values, tolerance](const HostArray& result) {
      SCOPED_TRACE(what);
      const HostArray wide = convert(result, DType::F32);
      const auto found = wide.as<float>();
      ASSERT_EQ(found.size(), values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        if (std::isfinite(values[i])) {
          EXPECT_NEAR(found[i], values[i], tolerance) << "element " << i;
        } else {
          EXPECT_EQ(std::isnan(found[i]), std::isnan(values[i])) << "element " << i;
          EXPECT_TRUE(std::isnan(values[i]) || found[i] == values[i]) << "element " << i;
        }
      }
    });
  }
  void run() {
    const std::vector<HostArray> results = evaluate(graph_, outputs_, arrays_);
    for (size_t i = 0; i < results.size(); ++i) {
      checks_[i](results[i]);
    }
  }
};

// Results that are exact in F32 need no tolerance; transcendental ones are given to 1e-6 of values
// near 1, that is 2^-23 with a few roundings.
constexpr float kTolerance = 1e-6F;

TEST_F(Values, OfElementwiseOps) {
  const Tensor x = f32({4}, {-1.5F, 0.0F, 0.5F, 2.0F});
  const Tensor y = f32({4}, {2.0F, 3.0F, 0.5F, -1.5F});
  expect("negate", -x, {1.5F, 0, -0.5F, -2});
  expect("exp", exp(x), {0.22313016F, 1, 1.6487213F, 7.3890561F}, 1e-5F);
  expect("log", log(y + 2.0), {1.3862944F, 1.6094379F, 0.9162907F, -0.6931472F}, kTolerance);
  expect("tanh", tanh(x), {-0.9051483F, 0, 0.4621172F, 0.9640276F}, kTolerance);
  expect("sin", sin(x), {-0.9974950F, 0, 0.4794255F, 0.9092974F}, kTolerance);
  expect("cos", cos(x), {0.0707372F, 1, 0.8775826F, -0.4161468F}, kTolerance);
  expect("sqrt", sqrt(abs(x)), {1.2247449F, 0, 0.7071068F, 1.4142136F}, kTolerance);
  expect("rsqrt", rsqrt(abs(y)), {0.7071068F, 0.5773503F, 1.4142136F, 0.8164966F}, kTolerance);
  expect("logistic", logistic(x), {0.1824255F, 0.5F, 0.6224593F, 0.8807971F}, kTolerance);
  expect("erf", erf(x), {-0.9661051F, 0, 0.5204999F, 0.9953223F}, kTolerance);
  expect("abs", abs(x), {1.5F, 0, 0.5F, 2});
  expect("sign", sign(x), {-1, 0, 1, 1});
  expect("floor", floor(x), {-2, 0, 0, 2});
  expect("round_even", round_even(x), {-2, 0, 0, 2});
  expect("add", x + y, {0.5F, 3, 1, 0.5F});
  expect("subtract", x - y, {-3.5F, -3, 0, 3.5F});
  expect("multiply", x * y, {-3, 0, 0.25F, -3});
  expect("divide", x / y, {-0.75F, 0, 1, -1.3333334F}, kTolerance);
  expect("maximum", maximum(x, y), {2, 3, 0.5F, 2});
  expect("minimum", minimum(x, 0.25), {-1.5F, 0, 0.25F, 0.25F});
  expect("pow", pow(abs(x), y), {2.25F, 0, 0.7071068F, 0.3535534F}, kTolerance);
  expect("remainder", remainder(x, y), {-1.5F, 0, 0, 0.5F});
  expect("2 - x", 2.0 - x, {3.5F, 2, 1.5F, 0});
  expect("1 / y", 1.0 / y, {0.5F, 0.3333333F, 2, -0.6666667F}, kTolerance);
  run();
}

TEST_F(Values, OfComparisonsAndBits) {
  const Tensor x = f32({4}, {-kInf, 1, 2, std::nanf("")});
  const Tensor i = s32({4}, {12, -1, 0, 7});
  const Tensor j = s32({4}, {10, 255, 3, 1});
  expect("less", compare(x, Comparison::LT, 2.0), {1, 1, 0, 0});
  expect("not equal", compare(x, Comparison::NE, x), {0, 0, 0, 1});
  expect("at least", compare(i, Comparison::GE, j), {1, 0, 0, 1});
  expect("is_finite", is_finite(x), {0, 1, 1, 0});
  expect("select", select(is_finite(x), x, zeros_like(x)), {0, 1, 2, 0});
  expect("and", i & j, {8, 255, 0, 1});
  expect("or", i | j, {14, -1, 3, 7});
  expect("xor", i ^ j, {6, -256, 3, 6});
  expect("not", logical_not(is_finite(x)), {1, 0, 0, 1});
  expect("shift_left", shift_left(j, s32({}, {2})), {40, 1020, 12, 4});
  expect("shift_right",
         shift_right_logical(bitcast(i, DType::U32), constant(graph_, 1, {DType::U32, {}})),
         {6, 2147483648.0F, 0, 3});
  expect("convert to s32", convert(f32({3}, {1.9F, -1.9F, 3}), DType::S32), {1, -1, 3});
  run();
}

TEST_F(Values, OfConstants) {
  const std::vector<float> values{1.0F, -0.1F, kInf};
  const std::vector<std::byte> flags{std::byte{1}, std::byte{0}, std::byte{1}};
  expect("elements", constant_f32(graph_, {3}, values), values);
  expect("pred", constant(graph_, {DType::PRED, {3}}, flags), {1, 0, 1});
  expect("splat", constant(graph_, 0.1, {DType::F32, {2}}), {0.1F, 0.1F});
  expect("nan", constant(graph_, std::nan(""), {DType::F32, {}}), {std::nanf("")});
  expect("infinity", constant(graph_, -kInf, {DType::BF16, {}}), {-kInf});
  expect("half", constant(graph_, 0.1, {DType::F16, {}}), {f16_to_f32(f32_to_f16(0.1F))});
  expect("s64", constant(graph_, -5, {DType::S64, {2}}), {-5, -5});
  expect("iota", iota(graph_, {DType::S32, {2, 3}}, Axis(1)), {0, 1, 2, 0, 1, 2});
  expect("e4m3fn", constant(graph_, -0.3, {DType::F8E4M3FN, {}}), {-0.3125F});
  expect("e4m3fn, beyond", constant(graph_, 1e3, {DType::F8E4M3FN, {}}), {std::nanf("")});
  expect("e5m2, beyond", constant(graph_, 1e6, {DType::F8E5M2, {}}), {kInf});
  run();
}

// Halfway between codes, one float to each side, and beyond the largest code: these show rounding
// through another type, or in the wrong direction.
TEST_F(Values, OfConversionsToEightBitsAreThoseOfTheHost) {
  std::vector<float> values{0.0F,  -0.0F,  kInf,   -kInf,   std::nanf(""),
                            1e30F, 1e-30F, 464.0F, 61440.0F};
  for (int code = 0; code < 0x7e; ++code) {
    for (const auto decoded : {f8e4m3fn_to_f32, f8e5m2_to_f32}) {
      const float low = decoded(static_cast<uint8_t>(code));
      const float high = decoded(static_cast<uint8_t>(code + 1));
      const float middle = low + (high - low) / 2;
      for (const float x :
           {low, std::nextafter(middle, 0.0F), middle, std::nextafter(middle, kInf)}) {
        values.push_back(x);
        values.push_back(-x);
      }
    }
  }
  const auto count = static_cast<int64_t>(values.size());
  for (const DType dtype : {DType::F8E4M3FN, DType::F8E5M2}) {
    const HostArray narrow = kinema::convert(HostArray::f32({count}, values), dtype);
    const HostArray wide = kinema::convert(narrow, DType::F32);
    const auto wanted = wide.as<float>();
    expect(dtype == DType::F8E4M3FN ? "e4m3fn" : "e5m2", convert(f32({count}, values), dtype),
           {wanted.begin(), wanted.end()});
  }
  run();
}

TEST_F(Values, OfShapeOps) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  expect("reshape", reshape(x, {3, 2}), {1, 2, 3, 4, 5, 6});
  expect("transpose", transpose(x, {1, 0}), {1, 4, 2, 5, 3, 6});
  expect("broadcast", broadcast_to(f32({2, 1}, {7, 8}), {2, 2}), {7, 7, 8, 8});
  expect("slice", slice(x, Axis(1), 0, 2, 2), {1, 3, 4, 6});
  expect("pad", pad(x, Axis(1), 1, 0, 9.0, 1), {9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6});
  expect("reverse", reverse(x, Axis(0)), {4, 5, 6, 1, 2, 3});
  expect("concatenate", concatenate({x, f32({2, 1}, {-1, -2})}, Axis(1)),
         {1, 2, 3, -1, 4, 5, 6, -2});
  expect("dynamic_slice", dynamic_slice(x, Axis(1), s32({}, {1}), 2), {2, 3, 5, 6});
  expect("clamped", dynamic_slice(x, Axis(1), s32({}, {7}), 2), {2, 3, 5, 6});
  expect("dynamic_update_slice",
         dynamic_update_slice(x, Axis(0), s32({}, {1}), f32({1, 3}, {7, 8, 9})),
         {1, 2, 3, 7, 8, 9});
  expect("take", take(x, s32({2, 2}, {1, 0, 0, 5})), {4, 5, 6, 1, 2, 3, 1, 2, 3, 4, 5, 6});
  run();
}

// Summed sequentially, a million squares would lose the fourth digit in f32.
TEST_F(Values, OfALongMean) {
  std::vector<float> values;
  double squares = 0.0;
  for (int i = 0; i < 1 << 20; ++i) {
    values.push_back(static_cast<float>(std::sin(i) * 2.0));
    squares += std::pow(values.back() - 1.0, 2);
  }
  const float expected = static_cast<float>(squares / static_cast<double>(values.size()));
  expect("long mean",
         mean(square(transpose(f32({16, 4, 16, 16, 64}, values), {0, 4, 1, 2, 3}) - 1.0)),
         {expected},
         2.0F * 64 * 0x1p-24F);  // half a unit for each sum along an axis
  run();
}

TEST_F(Values, OfReductions) {
  const Tensor x = f32({2, 3}, {1, 5, 3, 4, -2, 4});
  expect("sum", sum(x, {1}), {9, 6});
  expect("mean", mean(x, {0}), {2.5F, 1.5F, 3.5F});
  expect("max", max(x, {-1}), {5, 4});
  expect("min", min(x), {-2});
  expect("max of s32", max(s32({2}, {-7, -9})), {-7});
  expect("min of s32", min(s32({2}, {7, 9})), {7});
  expect("argmax", argmax(x, Axis(1)), {1, 0});
  expect("argsort, equal ones in their order", argsort(f32({5}, {2, -1, 2, 0, -1}), Axis(0)),
         {1, 4, 3, 0, 2});
  expect("argsort of rows", argsort(s32({2, 2}, {7, -9, 1, 2}), Axis(1)), {1, 0, 0, 1});
  expect("sorted", sorted(f32({4}, {2, -1, 5, 0})), {-1, 0, 2, 5});
  const Tensor positive = compare(x, Comparison::GT, 0.0);
  expect("all", all(positive, {1}), {1, 0});
  expect("any", any(positive, {0}), {1, 1, 1});
  // 257 is not a bf16, nor is any sum of ones beyond 256: only an F32 sum reaches 384.
  expect("sum of bf16", sum(bf16({384}, std::vector<float>(384, 1.0F))), {384});
  run();
}

TEST_F(Values, OfTiesInGradients) {
  const Tensor x = f32({4}, {3, 1, 3, 2});
  const Tensor y = f32({4}, {3, 0, 4, 5});
  expect("max shares", gradients(max(x), std::array{x})[0], {0.5F, 0, 0.5F, 0});
  expect("maximum shares", gradients(sum(maximum(x, y)), std::array{x})[0], {0.5F, 1, 0, 0});
  const Tensor zero = f32({2}, {0, 0});
  expect("pow at 0", gradients(sum(pow(zero, f32({2}, {0, 2}))), std::array{zero})[0], {0, 0});
  run();
}

TEST_F(Values, OfProducts) {
  const Tensor a = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = f32({3, 2}, {1, 0, 2, 1, 0, 3});
  expect("matmul", matmul(a, b), {5, 11, 14, 23});
  expect("einsum", einsum("ab,bc->ca", a, b), {5, 14, 11, 23});
  expect("einsum with lone letters", einsum("ab,bc->c", a, b), {19, 34});
  expect("convolution",
         convolution(f32({1, 1, 4}, {1, 2, 3, 4}), f32({2, 1, 2}, {1, 10, -1, 1}),
                     {.strides = {2}, .pad = {{1, 1}}}),
         {10, 32, 4, 1, 1, -4});
  run();
}

// 1 + 2^-9 has 10 significant bits: bf16 (8 bits) cannot hold the sum, F32 can.
TEST_F(Values, OfBf16ProductsAreF32OnRequest) {
  const Tensor a = bf16({1, 2}, {1.0F, 0x1p-9F});
  const Tensor b = bf16({2, 1}, {1.0F, 1.0F});
  const Tensor wide = dot_general(a, b, {{1}, {0}}, Precision::DEFAULT, DType::F32);
  expect("wide", wide, {1.0F + 0x1p-9F});
  expect("narrow", dot_general(a, b, {{1}, {0}}), {1.0F});
  const Tensor da = gradients(sum(wide), std::array{a})[0];
  EXPECT_EQ(da.dtype(), DType::BF16);
  expect("gradient", da, {1, 1});
  run();
}

// 300 products of -128 and 127 overflow 16 bits; sums of f8 products exceed the largest f8.
TEST_F(Values, OfNarrowProductsAreWide) {
  const Tensor a = convert(f32({1, 300}, std::vector<float>(300, -128.0F)), DType::S8);
  const Tensor b = convert(f32({300, 1}, std::vector<float>(300, 127.0F)), DType::S8);
  expect("s8", convert(dot_general(a, b, {{1}, {0}}, Precision::DEFAULT, DType::S32), DType::F32),
         {-300.0F * 128 * 127});
  const Tensor c = convert(f32({1, 3}, {448, 448, 0x1p-9F}), DType::F8E4M3FN);
  const Tensor d = convert(f32({3, 1}, {1024, 1024, 1}), DType::F8E5M2);
  expect("f8", dot_general(c, d, {{1}, {0}}, Precision::DEFAULT, DType::F32),
         {2.0F * 448 * 1024 + 0x1p-9F});
  run();
}

TEST_F(Values, OfComposedFunctions) {
  const Tensor x = f32({1, 3}, {-1, 0, 2});
  expect("softmax", softmax(x), {0.0420101F, 0.1141952F, 0.8437947F}, kTolerance);
  expect("softmax of large scores", softmax(x * 1e30), {0, 0, 1});
  expect("softmax in bf16", softmax(x, DType::BF16), {0.0419921875F, 0.1142578125F, 0.84375F});
  expect("silu", silu(x), {-0.2689414F, 0, 1.7615942F}, kTolerance);
  expect("gelu_tanh", gelu_tanh(x), {-0.1588080F, 0, 1.9545977F}, kTolerance);
  expect("gelu_erf", gelu_erf(x), {-0.1586553F, 0, 1.9544997F}, kTolerance);
  expect("geglu", geglu(f32({1, 4}, {3, -2, -1, 2})), {-0.4759658F, -3.9089994F}, kTolerance);
  expect("square", square(x), {1, 0, 4});
  expect("layer_norm", layer_norm(x, 0.0), {-1.0690450F, -0.2672612F, 1.3363062F}, kTolerance);
  expect("rms_norm", rms_norm(x, 0.0), {-0.7745967F, 0, 1.5491933F}, kTolerance);
  EXPECT_EQ(layer_norm(bf16({1, 2}, {1, 2}), 1e-6).dtype(), DType::BF16);
  // One rounding of the F32 value 1.9545977, whose bf16 neighbours are 2^-7 apart.
  expect("gelu_tanh of bf16", gelu_tanh(bf16({1}, {2})), {1.953125F});
  run();
}

TEST_F(Values, OfConvertGradientsComeBackInTheOperandsDtype) {
  const Tensor x = bf16({2}, {1, 2});
  const Tensor dx = gradients(sum(convert(x, DType::F32) * f32({2}, {3, 0.5F})), std::array{x})[0];

  EXPECT_EQ(dx.dtype(), DType::BF16);
  expect("gradient", dx, {3, 0.5F});
  run();
}

}  // namespace
}  // namespace kinema
