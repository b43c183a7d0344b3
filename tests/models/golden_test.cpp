#include "models/reference.h"

namespace kinema::wan {
namespace {

// The reference differs from float64 by less than 1e-6 of the largest magnitude, and our summation
// order adds as much again; 2e-5 leaves a factor of ten.
constexpr double kF32Limit = 2e-5;
// The argument of the time sinusoid reaches 1000 and is rounded to f32: half an ulp is 3e-5, and
// everything computed from it inherits that error, damped.
constexpr double kSinusoidLimit = 1e-4;

class GoldenTest : public pjrt::CpuTest {};

void expect_taps(const std::string& model, const std::string& name) {
  const io::SafetensorsFile file = reference(name);
  Subject subject(model, {.scan_layers = false});
  TransformerInputs in = subject.inputs(file);
  std::vector<std::string> names;
  std::vector<Tensor> values;
  in.tap = [&](const std::string& tap, Tensor value) {
    if (file.find("tap." + tap) != nullptr) {
      names.push_back("tap." + tap);
      values.push_back(value);
    }
  };
  values.push_back(subject(in));
  names.emplace_back("output");
  const std::vector<HostArray> got = subject.run(values);
  std::set<std::string> seen(names.begin(), names.end());
  for (const io::TensorView& tensor : file.tensors()) {
    EXPECT_TRUE(!tensor.name.starts_with("tap.") || seen.contains(tensor.name))
        << tensor.name << " is not offered";
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const double limit = names[i] == "tap.time_sinusoid" ? kSinusoidLimit : kF32Limit;
    EXPECT_LE(relative_difference(got[i], file.at(names[i]).copy()), limit) << names[i];
  }
}

void expect_output(const std::string& model, const std::string& name,
                   const nn::ModelOptions& options = {}, const std::string& output = "output",
                   double limit = kF32Limit) {
  const io::SafetensorsFile file = reference(name);
  Subject subject(model, options);
  const std::vector<Tensor> y{subject(subject.inputs(file))};
  EXPECT_LE(relative_difference(subject.run(y)[0], file.at(output).copy()), limit) << name;
}

TEST_F(GoldenTest, EveryTapOfTheTextToVideoModelMatches) {
  expect_taps("wan21_t2v/transformer", "transformer");
}

TEST_F(GoldenTest, EveryTapOfTheImageToVideoModelMatches) {
  expect_taps("wan21_i2v/transformer", "transformer_i2v");
}

TEST_F(GoldenTest, EveryTapWithOneTimestepPerTokenMatches) {
  expect_taps("wan22_ti2v/transformer", "transformer_ti2v");
}

TEST_F(GoldenTest, ScannedBlocksGiveTheSameOutput) {
  expect_output("wan21_t2v/transformer", "transformer");
  expect_output("wan21_i2v/transformer", "transformer_i2v");
  expect_output("wan22_ti2v/transformer", "transformer_ti2v");
}

TEST_F(GoldenTest, OneFrameOneRowOneTextTokenAndIntegerTimestepsMatch) {
  expect_output("wan21_t2v/transformer", "transformer_edge", {.scan_layers = true});
  expect_output("wan21_t2v/transformer", "transformer_edge", {.scan_layers = false});
}

TEST_F(GoldenTest, ShardedHalfAndMixedCheckpointsLoad) {
  expect_output("variants/transformer_sharded", "variants", {}, "sharded.output");
  expect_output("variants/transformer_bf16", "variants", {}, "bf16.output_computed_in_float32");
  expect_output("variants/transformer_mixed", "variants", {}, "mixed.output_computed_in_float32");
}

// One bf16 rounding is 2^-9 of a value; a dozen of them along the residual stream of two blocks
// stay near one percent of the largest magnitude, and the reference's own bf16 run has an error of
// half a percent.
TEST_F(GoldenTest, HalfPrecisionStaysWithinTwoPercent) {
  for (const bool scan : {true, false}) {
    const nn::ModelOptions options{
        .weights_dtype = DType::BF16, .activations_dtype = DType::BF16, .scan_layers = scan};
    expect_output("variants/transformer_mixed", "variants", options,
                  "mixed.output_computed_in_float32", 2e-2);
    expect_output("variants/transformer_mixed", "variants", options,
                  "mixed.output_computed_in_bf16", 2e-2);
  }
}

TEST_F(GoldenTest, MasterWeightsInF32ServeHalfPrecisionActivations) {
  expect_output("variants/transformer_mixed", "variants", {.activations_dtype = DType::BF16},
                "mixed.output_computed_in_float32", 2e-2);
}

}  // namespace
}  // namespace kinema::wan
