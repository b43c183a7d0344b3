#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/runtime/program.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/t5.h"
#include "models/text_reference.h"
#include "pjrt/cpu_plugin.h"

// T5 of Flux.1; tests/verification and tests/encoders run UMT5's reference cases.
namespace kinema::t5 {
namespace {

using Values = std::map<std::string, HostArray>;

// The reference's float64 and float32 runs differ by 6.2e-7.
constexpr double kLimit = 3e-6;
// The case's own limit, which must tell a mistake from rounding.
constexpr double kCaseLimit = 1e-4;

class T5Reference : public ::testing::Test {
 protected:
  io::SafetensorsFile file_ = io::SafetensorsFile::open(io::golden("io/flux_t5.safetensors"));
  io::ModelFolder files_ = io::ModelFolder::open(io::golden("flux_dev/text_encoder_2"));
  EncoderConfig config_ = weights::parse_t5_config(files_.config());
  pjrt::Client client_ = pjrt::cpu_client();

  HostArray want(const std::string& name) const { return file_.at(name).copy(); }

  HostArray rows(const std::string& ids) const {
    const HostArray given = want(ids);
    return weights::embedding_rows(weights::t5_embedding(files_), given.shape.dims,
                                   given.as<int64_t>());
  }

  Values run(const std::vector<std::pair<std::string, Tensor>>& outputs, const Graph& graph,
             std::span<const nn::ParamSpec> specs, const std::vector<HostArray>& given) const {
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : outputs) {
      tensors.push_back(tensor);
    }
    const auto program = runtime::Program::compile(client_, graph, tensors);
    std::vector<pjrt::Buffer> buffers = weights::load_tensors(files_, specs, client_);
    for (const HostArray& array : given) {
      buffers.push_back(client_.to_device(array));
    }
    const auto results = program.run(std::span<const pjrt::Buffer>(buffers));
    Values values;
    for (size_t i = 0; i < results.size(); ++i) {
      values.emplace(outputs[i].first, results[i].to_host());
    }
    return values;
  }

  static std::vector<Tensor> inputs_of(Graph& graph, std::span<const nn::ParamSpec> specs) {
    std::vector<Tensor> params;
    for (const nn::ParamSpec& spec : specs) {
      params.push_back(graph.input(spec.shape, spec.name));
    }
    return params;
  }

  /// "hidden" and taps; `change` modifies the inputs.
  Values encode(const std::string& ids, const EncoderOptions& options, bool has_tap = false,
                bool masked = false) const {
    const auto specs = parameters(config_, options);
    Graph graph;
    const std::vector<Tensor> params = inputs_of(graph, specs);
    std::vector<HostArray> given{rows(ids)};
    std::vector<std::pair<std::string, Tensor>> outputs;
    EncoderInputs in{.embeddings = graph.input(given[0].shape)};
    if (masked) {
      given.push_back(want(ids));  // padding has id 0
      in.mask = graph.input(given[1].shape);
    }
    if (has_tap) {
      in.tap = [&](const std::string& name, Tensor value) { outputs.emplace_back(name, value); };
    }
    const Tensor hidden = encoder(params, config_, options, in);
    outputs.emplace_back("hidden", hidden);
    return run(outputs, graph, specs, given);
  }
};

TEST_F(T5Reference, EveryValueIsTheReferencesInBothForms) {
  EXPECT_TRUE(config_.shared_relative_bias);
  const Values values = encode("short.ids", {.precision = Precision::HIGHEST, .scan_layers = false},
                               /*has_tap=*/true);
  EXPECT_LT(text_difference(values.at("hidden"), want("short.hidden")), kLimit);
  for (const char* tap : {"block0", "block1", "position_bias"}) {
    EXPECT_LT(text_difference(values.at(tap), want(std::string("tap.short.") + tap)), kLimit)
        << tap;
  }
  // All blocks share block 0's bias.
  EXPECT_EQ(values.at("block0_bias").bytes, values.at("block1_bias").bytes);

  const EncoderOptions scanned{.precision = Precision::HIGHEST};
  EXPECT_LT(text_difference(encode("short.ids", scanned).at("hidden"), want("short.hidden")),
            kLimit);
  // Distances beyond those with a bucket each, and heads in groups.
  EncoderOptions grouped = scanned;
  grouped.scores_bytes = 300 * 300 * 4;
  for (const EncoderOptions& options : {scanned, grouped}) {
    EXPECT_LT(text_difference(encode("long.ids", options).at("hidden"), want("long.hidden")),
              kLimit);
  }
}

TEST_F(T5Reference, BlocksOneAfterTheOtherMakeTheSame) {
  const EncoderOptions options{.precision = Precision::HIGHEST};
  std::vector<HostArray> x{rows("short.ids")};
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    std::vector<nn::ParamSpec> specs = block_parameters(config_, options, layer);
    const std::vector<nn::ParamSpec> shared = shared_parameters(config_, options);
    ASSERT_EQ(shared.size(), 1U);
    specs.push_back(shared[0]);
    Graph graph;
    const std::vector<Tensor> params = inputs_of(graph, specs);
    const Tensor y = block(params, config_, options, graph.input(x[0].shape), {});
    x[0] = run({{"y", y}}, graph, specs, x).at("y");
    EXPECT_LT(text_difference(x[0], want("tap.short.block" + std::to_string(layer))), kLimit);
  }
  const auto specs = norm_parameters(config_, options);
  Graph graph;
  const std::vector<Tensor> params = inputs_of(graph, specs);
  const Tensor y = final_norm(params, config_, options, graph.input(x[0].shape));
  EXPECT_LT(text_difference(run({{"y", y}}, graph, specs, x).at("y"), want("short.hidden")),
            kLimit);
}

TEST_F(T5Reference, MistakesAreSeen) {
  const EncoderOptions options{.precision = Precision::HIGHEST};
  const auto off = [&](const Values& values) {
    return text_difference(values.at("hidden"), want("short.hidden"));
  };
  EXPECT_GT(off(encode("short.ids", options, false, /*masked=*/true)), 100 * kCaseLimit);
  config_.layer_norm_epsilon = 1e-5;
  EXPECT_GT(off(encode("short.ids", options)), kCaseLimit);
  config_.layer_norm_epsilon = 1e-6;
  config_.relative_attention_max_distance = 64;
  EXPECT_GT(off(encode("short.ids", options)), kCaseLimit);
}

TEST_F(T5Reference, Bf16IsNear) {
  const HostArray hidden =
      convert(encode("short.ids", {.weights_dtype = DType::BF16, .activations_dtype = DType::BF16})
                  .at("hidden"),
              DType::F32);
  const double off = text_difference(hidden, want("short.hidden"));
  // A bf16 number has a relative error of 2^-9, and a few of them are added.
  EXPECT_LT(off, 4e-2);
  EXPECT_GT(off, kCaseLimit);
}

}  // namespace
}  // namespace kinema::t5
