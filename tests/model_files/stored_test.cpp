#include "kinema/model_files/stored.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/core/f8.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/nn/quantized.h"
#include "kinema/runtime/program.h"
#include "kinema/weights/weights.h"
#include "networks/wan.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::model_files {
namespace {

pjrt::Client& client() {
  static pjrt::Client opened = pjrt::cpu_client();
  return opened;
}

StoredWeight stored(const HostArray& weight, DType codes, std::string_view name = "w") {
  return store({weight.shape, weight.bytes, name}, codes);
}

class StoredWeights : public testing::TestWithParam<DType> {};

// Rows longer than what is converted to F32 at a time, in every dtype of files.
TEST_P(StoredWeights, AreOfTheFloatsThatAFileHas) {
  for (const DType dtype : {DType::BF16, DType::F16, DType::F32}) {
    const HostArray weight = convert(normal({3, 9000}, 7), dtype);
    const HostArray wide = convert(weight, DType::F32);
    const StoredWeight found = stored(weight, GetParam());
    const double most = GetParam() == DType::S8 ? 127.5 : 448.0;
    for (size_t row = 0; row < 3; ++row) {
      const auto values = wide.as<float>().subspan(row * 9000, 9000);
      float largest = 0;
      for (const float x : values) {
        largest = std::max(largest, std::abs(x));
      }
      const float scale = largest / static_cast<float>(most);
      EXPECT_EQ(found.scales.as<float>()[row], scale);
      for (size_t i = 0; i < values.size(); ++i) {
        const float q = values[i] / scale;
        const int code = GetParam() == DType::S8
                             ? static_cast<uint8_t>(static_cast<int8_t>(
                                   std::clamp(std::nearbyint(q), -128.0F, 127.0F)))
                             : f32_to_f8e4m3fn(std::clamp(q, -448.0F, 448.0F));
        ASSERT_EQ(static_cast<int>(found.codes.bytes[row * 9000 + i]), code) << row << " " << i;
      }
    }
  }
}

// For the same weights, with the largest of each row positive: this avoids values halfway between
// codes, which the last bit of a division decides.
TEST_P(StoredWeights, AreTheCodesThatProductsMake) {
  HostArray weight = normal({6, 40}, 1);
  for (size_t row = 0; row < 6; ++row) {
    weight.as<float>()[row * 40 + row] = 5.0F + static_cast<float>(row);
  }
  for (size_t i = 200; i < 240; ++i) {
    weight.as<float>()[i] = 0.0F;  // a row of zeros
  }
  Graph graph;
  const Tensor w = graph.input({DType::F32, {6, 40}});
  const nn::Codes codes = nn::quantize(w, GetParam(), {1}, {});
  const auto results =
      runtime::Program::compile(client(), graph, std::vector{codes.values, codes.scale}, {})
          .run_on_host(std::vector{weight});
  const StoredWeight found = stored(weight, GetParam());
  EXPECT_EQ(found.codes.shape, results[0].shape);
  // A quotient may fall on the other side of a midpoint: few do, and by one code.
  const auto a = found.codes.bytes;
  const auto b = results[0].bytes;
  int different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different += a[i] != b[i] ? 1 : 0;
  }
  EXPECT_LE(different, 2);
  for (size_t row = 0; row < 6; ++row) {
    EXPECT_NEAR(found.scales.as<float>()[row], results[1].as<float>()[row],
                3e-7 * results[1].as<float>()[row]);
  }
  EXPECT_EQ(found.scales.as<float>()[5], 1.0F);
  HostArray back(weight.shape);
  decode_stored(found.codes.bytes, GetParam(), found.scales.as<float>(), back.as<float>());
  for (size_t i = 0; i < 240; ++i) {
    const float step = GetParam() == DType::S8 ? found.scales.as<float>()[i / 40]
                                               : std::abs(weight.as<float>()[i]) / 8.0F +
                                                     found.scales.as<float>()[i / 40] * 0x1p-9F;
    EXPECT_NEAR(back.as<float>()[i], weight.as<float>()[i], 0.51F * step) << i;
  }
}

/// The tiny reference transformer's prediction.
HostArray prediction(const nn::ModelOptions& options, std::vector<nn::ParamSpec>* specs_out) {
  const auto path = io::golden("wan21_t2v/transformer");
  const wan::TransformerConfig config = wan_config(path);
  const std::vector<nn::ParamSpec> specs = wan::parameters(config, options);
  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : specs) {
    params.push_back(graph.input(spec.shape, spec.name));
  }
  const Shape latents{DType::F32, {1, config.in_channels, 1, 8, 8}};
  const Shape text{DType::F32, {1, 5, config.text_dim}};
  const Tensor y = wan::transformer(params, config, options,
                                    {.hidden_states = graph.input(latents),
                                     .timestep = graph.input({DType::F32, {1}}),
                                     .encoder_hidden_states = graph.input(text)});
  std::vector<pjrt::Buffer> buffers = weights::load(path, specs, client());
  for (const HostArray& array :
       {normal(latents.dims, 1), HostArray::f32({1}, std::vector{500.0F}), normal(text.dims, 2)}) {
    buffers.push_back(client().to_device(array));
  }
  if (specs_out != nullptr) {
    *specs_out = specs;
  }
  return runtime::Program::compile(client(), graph, std::vector{y}, {})
      .run(std::span<const pjrt::Buffer>(buffers))[0]
      .to_host();
}

double distance(const HostArray& a, const HostArray& b) {
  double differences = 0.0;
  double squares = 0.0;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    const double d = a.as<float>()[i] - b.as<float>()[i];
    differences += d * d;
    squares += static_cast<double>(b.as<float>()[i]) * b.as<float>()[i];
  }
  return std::sqrt(differences / squares);
}

TEST_P(StoredWeights, MoveATransformerByTheirRoundingAlone) {
  nn::ModelOptions options;
  const HostArray plain = prediction(options, nullptr);
  options.weights_storage = GetParam();
  std::vector<nn::ParamSpec> specs;
  const HostArray scanned = prediction(options, &specs);
  options.scan_layers = false;
  const HostArray unrolled = prediction(options, nullptr);

  // Rounding only weights does less than also rounding activations, which is 1.6 % (int8) and 7 %
  // (fp8).
  EXPECT_LT(distance(scanned, plain), GetParam() == DType::S8 ? 0.02 : 0.07);
  EXPECT_GT(distance(scanned, plain), 1e-4) << "nothing was rounded";
  EXPECT_LT(distance(unrolled, scanned), 1e-5);
  size_t codes = 0;
  for (const nn::ParamSpec& spec : specs) {
    if (nn::is_code_dtype(spec.shape.dtype)) {
      ++codes;
      EXPECT_TRUE(spec.name.starts_with("blocks.{}.") && spec.shape.rank() == 3) << spec.name;
    }
  }
  EXPECT_EQ(codes, 10U) << "four and four of attention, two of the feed-forward";
}

TEST_P(StoredWeights, AreFiniteOrRefusedByName) {
  for (const float value : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (const size_t at : {0U, 130U, 255U}) {
      HostArray weight = normal({64, 4}, 1);
      weight.as<float>()[at] = value;
      EXPECT_THAT([&] { stored(weight, GetParam(), "blocks.0.attn1.to_q.weight"); },
                  testing::ThrowsMessage<Error>(
                      testing::AllOf(testing::HasSubstr("`blocks.0.attn1.to_q.weight` holds"),
                                     testing::HasSubstr(std::isnan(value) ? "NaN" : "infinity"))));
    }
  }
  // The largest number is one, so its scale is no larger.
  HostArray weight = normal({2, 4}, 1);
  weight.as<float>()[3] = std::numeric_limits<float>::max();
  EXPECT_NO_THROW(stored(weight, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StoredWeights, testing::Values(DType::S8, DType::F8E4M3FN),
                         [](const auto& dtype) { return std::string(to_string(dtype.param)); });

// Quantized products would compute the same codes: the stored ones are used directly.
TEST(StoredWeights, AreTheOperandsOfProductsOfTheSameCodes) {
  nn::ModelOptions options;
  options.quantization = {.mode = nn::Quantization::Mode::FP8,
                          .module_path = "blocks/(ffn|attn[12]/[^a]).*"};
  const HostArray quantized = prediction(options, nullptr);
  options.weights_storage = DType::F8E4M3FN;
  // The same codes except for quotients on the other side of a midpoint (`store` divides exactly).
  EXPECT_LT(distance(prediction(options, nullptr), quantized), 0.02);
}

}  // namespace
}  // namespace kinema::model_files
