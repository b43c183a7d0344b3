#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/models/t5/relative_bias.h"

namespace kinema::t5 {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

EncoderConfig tiny() {
  return {.vocab_size = 16, .d_model = 8, .d_kv = 3, .d_ff = 12, .num_layers = 2, .num_heads = 4};
}

// From the reference implementation.
TEST(RelativeBuckets, AreTheReferences) {
  const int64_t length = 300;
  const std::vector<int64_t> buckets = relative_buckets({}, length);
  const auto at = [&](int64_t distance) {
    return buckets[static_cast<size_t>(distance + length - 1)];
  };
  EXPECT_EQ(buckets.size(), 599U);
  const std::pair<int64_t, int64_t> expected[] = {
      {-200, 15}, {-64, 14}, {-16, 10}, {-9, 8},  {-8, 8},  {-7, 7},
      {-1, 1},    {0, 0},    {1, 17},   {7, 23},  {8, 24},  {12, 25},
      {16, 26},   {23, 27},  {32, 28},  {63, 29}, {91, 31}, {299, 31}};
  for (const auto& [distance, bucket] : expected) {
    EXPECT_EQ(at(distance), bucket) << distance;
  }
}

TEST(RelativeBuckets, OneTokenHasOneDistance) {
  EXPECT_EQ(relative_buckets({}, 1), std::vector<int64_t>{0});
}

TEST(T5, EveryLayerHasItsOwnBiasAndTheHeadsNeedNotFillTheWidth) {
  const auto specs = parameters(tiny(), {.scan_layers = false});

  EXPECT_EQ(specs.size(), 1U + 2U * 10U);
  for (const char* layer : {"0", "1"}) {
    const std::string name = std::string("encoder.block.") + layer +
                             ".layer.0.SelfAttention.relative_attention_bias.weight";
    const auto found = std::ranges::find(specs, name, &nn::ParamSpec::name);
    ASSERT_NE(found, specs.end()) << name;
    EXPECT_EQ(found->shape.dims, (Dims{32, 4}));
  }
  const auto q = std::ranges::find(specs, "encoder.block.0.layer.0.SelfAttention.q.weight",
                                   &nn::ParamSpec::name);
  ASSERT_NE(q, specs.end());
  EXPECT_EQ(q->shape.dims, (Dims{12, 8}));
}

TEST(T5, BlocksShareTheTableOfTheFirst) {
  EncoderConfig config = tiny();
  config.shared_relative_bias = true;
  const auto names = [&](bool scan) {
    std::vector<std::string> out;
    for (const nn::ParamSpec& spec : parameters(config, {.scan_layers = scan})) {
      for (int64_t i = 0; i < spec.count(); ++i) {
        out.push_back(spec.key(i));
      }
    }
    return out;
  };
  EXPECT_EQ(names(false).size(), 1U + 1U + 2U * 9U);
  EXPECT_THAT(names(true), ::testing::UnorderedElementsAreArray(names(false)));
  EXPECT_THAT(
      names(true),
      ::testing::Contains("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"));
  EXPECT_EQ(block_parameters(config, {}, 1).size(), 9U);
  EXPECT_EQ(shared_parameters(config, {}).size(), 1U);
  EXPECT_EQ(block_parameters(tiny(), {}, 1).size(), 10U);
  EXPECT_TRUE(shared_parameters(tiny(), {}).empty());
}

TEST(T5, PublishedSizesHaveTheirParameters) {
  // T5 v1.1 XXL's encoder, as in Flux.1.
  const EncoderConfig xxl{.vocab_size = 32128, .shared_relative_bias = true};
  int64_t count = embedding_table(xxl).shape.elements();
  for (const nn::ParamSpec& spec : parameters(xxl, {})) {
    count += spec.shape.elements();
  }
  EXPECT_EQ(count, 4762310656);
}

TEST(T5, TheProgramDoesNotGrowWithTheLayersWhenScanned) {
  const auto text = [](int64_t layers) {
    EncoderConfig config = tiny();
    config.num_layers = layers;
    Graph graph;
    std::vector<Tensor> params;
    for (const nn::ParamSpec& spec : parameters(config, {})) {
      params.push_back(graph.input(spec.shape, spec.name));
    }
    const EncoderInputs in{.embeddings = graph.input({DType::F32, {1, 5, 8}}),
                           .mask = graph.input({DType::F32, {1, 5}})};
    return emit(graph, std::vector<Tensor>{encoder(params, config, {}, in)}, {});
  };
  // Only the digits of the count differ.
  EXPECT_LT(text(24).size(), text(2).size() + 100);
}

TEST(T5, SizesThatCannotBeAreRefused) {
  const auto with = [](auto change) {
    EncoderConfig config = tiny();
    change(config);
    return [config] { parameters(config, {}); };
  };
  EXPECT_THAT(with([](EncoderConfig& c) { c.num_heads = 0; }),
              ThrowsMessage<Error>(HasSubstr("`num_heads` is 0")));
  EXPECT_THAT(with([](EncoderConfig& c) { c.relative_attention_max_distance = 8; }),
              ThrowsMessage<Error>(HasSubstr("`relative_attention_max_distance` is 8")));
  EXPECT_THAT(with([](EncoderConfig& c) { c.layer_norm_epsilon = 0.0; }),
              ThrowsMessage<Error>(HasSubstr("`layer_norm_epsilon`")));
}

TEST(T5, InputsThatDoNotFitAreRefused) {
  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : parameters(tiny(), {})) {
    params.push_back(graph.input(spec.shape, spec.name));
  }
  EncoderInputs in{.embeddings = graph.input({DType::F32, {1, 5, 8}})};
  EXPECT_NO_THROW(encoder(params, tiny(), {}, in)) << "without a mask";
  in.mask = graph.input({DType::F32, {1, 6}});
  EXPECT_THAT([&] { encoder(params, tiny(), {}, in); },
              ThrowsMessage<Error>(HasSubstr("mask is f32[1,6] but must be [1, 5]")));
}

}  // namespace
}  // namespace kinema::t5
