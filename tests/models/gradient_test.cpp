#include "kinema/graph/autodiff.h"
#include "models/reference.h"

namespace kinema::wan {
namespace {

// Per tensor, relative to its largest magnitude. The reference differs from float64 by 1.2e-5, at
// the first linear layer of the time embedder, whose input is the imprecise sinusoid.
constexpr double kGradientLimit = 1e-4;

class GradientTest : public pjrt::CpuTest {};

/// Loss, prediction, input gradients and parameter gradients by checkpoint key.
std::map<std::string, HostArray> backward(const nn::ModelOptions& options) {
  const io::SafetensorsFile file = reference("transformer_grad");
  Subject subject("wan21_t2v/transformer", options);
  const TransformerInputs in = subject.inputs(file, "noisy_latents");
  const Tensor prediction = subject(in);
  const Tensor loss =
      mean(square(convert(prediction, DType::F32) - subject.input(file.at("target"))));
  std::vector<Tensor> wrt = subject.params();
  wrt.push_back(in.hidden_states);
  wrt.push_back(in.encoder_hidden_states);
  std::vector<Tensor> outputs = gradients(loss, wrt);
  outputs.push_back(prediction);
  outputs.push_back(loss);
  std::vector<HostArray> values = subject.run(outputs);
  std::map<std::string, HostArray> result;
  result["loss"] = std::move(values.back());
  values.pop_back();
  result["prediction"] = std::move(values.back());
  values.pop_back();
  result["grad_input.encoder_hidden_states"] = std::move(values.back());
  values.pop_back();
  result["grad_input.hidden_states"] = std::move(values.back());
  for (size_t i = 0; i < subject.specs().size(); ++i) {
    const nn::ParamSpec& spec = subject.specs()[i];
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      HostArray one(spec.layer_shape());
      const auto size = static_cast<int64_t>(one.bytes.size());
      std::copy_n(values[i].bytes.begin() + layer * size, size, one.bytes.begin());
      result["grad." + spec.key(layer)] = std::move(one);
    }
  }
  return result;
}

void expect_reference(const std::map<std::string, HostArray>& got) {
  const io::SafetensorsFile file = reference("transformer_grad");
  int64_t compared = 0;
  for (const io::TensorView& tensor : file.tensors()) {
    const auto found = got.find(tensor.name);
    if (found != got.end()) {
      ++compared;
      EXPECT_LE(relative_difference(found->second, tensor.copy()), kGradientLimit) << tensor.name;
    } else {
      EXPECT_FALSE(tensor.name.starts_with("grad.")) << tensor.name << " has no counterpart";
    }
  }
  EXPECT_EQ(compared, static_cast<int64_t>(got.size()));
}

TEST_F(GradientTest, EveryParameterMatchesTheReferenceScanned) {
  expect_reference(backward({.scan_layers = true}));
}

TEST_F(GradientTest, EveryParameterMatchesTheReferenceWithAttentionInBlocks) {
  nn::ModelOptions options{.remat = remat_policy("CUSTOM", {"attn_output"})};
  options.attention.kind = nn::AttentionKind::FLASH;
  // Neither divides the 40 tokens or the 24 of the text.
  options.attention.blocks = {
      .block_q = 7, .block_kv_compute = 9, .block_q_dkv = 9, .block_kv_dkv_compute = 7};
  expect_reference(backward(options));
}

TEST_F(GradientTest, EveryParameterMatchesTheReferenceUnrolled) {
  expect_reference(backward({.scan_layers = false}));
}

// Recomputation gives the same values, except for the compiler's fusion: a few ulp (6e-8) per step
// of a chain of some hundred.
TEST_F(GradientTest, EveryRematPolicyGivesTheSameGradients) {
  const std::map<std::string, HostArray> plain = backward({});
  const std::vector<std::string> names{"attn_output", "query_proj",     "key_proj", "value_proj",
                                       "xq_out",      "ffn_activation", "xk_out"};
  const auto expect_same = [&](const char* policy, bool scan) {
    SCOPED_TRACE(fmt::format("{} {}", policy, scan ? "scanned" : "unrolled"));
    const auto got =
        backward({.scan_layers = scan, .remat = remat_policy(policy, names, {"self_attn"})});
    ASSERT_EQ(got.size(), plain.size());
    for (const auto& [name, value] : plain) {
      EXPECT_LE(relative_difference(got.at(name), value), 2e-5) << name;
    }
  };
  expect_same("FULL", true);
  expect_same("FULL", false);
  expect_same("MATMUL_WITHOUT_BATCH", true);
  expect_same("HIDDEN_STATE_WITH_OFFLOAD", true);
  expect_same("CUSTOM", true);
  expect_same("CUSTOM", false);
}

TEST_F(GradientTest, HalfPrecisionActivationsKeepGradientsWithinAFewPercent) {
  const std::map<std::string, HostArray> plain = backward({});
  const std::map<std::string, HostArray> half = backward({.activations_dtype = DType::BF16});
  for (const auto& [name, value] : plain) {
    // Each of some twenty roundings in the backward pass adds at most 2^-9 of the largest
    // magnitude.
    EXPECT_LE(relative_difference(half.at(name), value), 5e-2) << name;
    EXPECT_EQ(half.at(name).shape.dtype, name == "prediction" ? DType::BF16 : DType::F32) << name;
  }
}

}  // namespace
}  // namespace kinema::wan
