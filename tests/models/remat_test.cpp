// What the backward pass keeps of the blocks of image and video networks.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kinema/graph/autodiff.h"
#include "kinema/graph/body.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/scan.h"
#include "kinema/models/flux/transformer.h"
#include "kinema/models/wan/transformer.h"

namespace kinema {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

// 4 x 4 latents are 4 tokens, plus 3 of text.
constexpr int64_t kImage = 4;
constexpr int64_t kText = 3;
constexpr int64_t kWidth = 32;

const flux::TransformerConfig kFlux{.in_channels = 16,
                                    .out_channels = 16,
                                    .num_layers = 2,
                                    .num_single_layers = 3,
                                    .num_attention_heads = 2,
                                    .attention_head_dim = 16,
                                    .joint_attention_dim = 24,
                                    .pooled_projection_dim = 8,
                                    .axes_dims_rope = {4, 6, 6}};

std::vector<Tensor> inputs_of(Graph& graph, std::span<const nn::ParamSpec> specs) {
  std::vector<Tensor> out;
  for (const nn::ParamSpec& spec : specs) {
    out.push_back(graph.input(spec.shape, spec.name));
  }
  return out;
}

/// What each forward loop over blocks keeps, besides its last carries: the shapes of one step's
/// values, without their leading axis, sorted.
std::vector<std::vector<Dims>> kept_by_loops(Graph& graph, Tensor loss,
                                             const std::vector<Tensor>& params) {
  size_t forward = 0;
  for (const Node& node : graph.nodes()) {
    forward += node.op == &kScan ? 1 : 0;
  }
  gradients(loss, params);
  std::vector<std::vector<Dims>> out;
  for (const Node& node : graph.nodes()) {
    if (node.op != &kScan || out.size() == forward) {
      continue;
    }
    const Body& body = *node.get<std::shared_ptr<Body>>();
    std::vector<Dims> kept;
    for (size_t i = body.carries; i < node.results.size(); ++i) {
      const Dims& dims = node.results[i].dims;
      kept.emplace_back(dims.begin() + 1, dims.end());
    }
    std::ranges::sort(kept);
    out.push_back(kept);
  }
  return out;
}

std::vector<std::vector<Dims>> kept_of_flux(const RematPolicy& policy) {
  nn::ModelOptions options{.remat = policy};
  options.attention.kind = nn::AttentionKind::DOT_PRODUCT;
  Graph graph;
  const std::vector<Tensor> params = inputs_of(graph, flux::parameters(kFlux, options));
  const Tensor y = flux::transformer(params, kFlux, options,
                                     {.latents = graph.input({DType::F32, {1, 4, 4, 4}}),
                                      .timestep = graph.input({DType::F32, {1}}),
                                      .guidance = graph.input({DType::F32, {1}}),
                                      .text = graph.input({DType::F32, {1, kText, 24}}),
                                      .pooled = graph.input({DType::F32, {1, 8}})})
                       .velocity;
  return kept_by_loops(graph, mean(square(y)), params);
}

const Dims kImageTokens{1, kImage, kWidth};
const Dims kTextTokens{1, kText, kWidth};
const Dims kAllTokens{1, kText + kImage, kWidth};

// MaxDiffusion (commit 7cfb8801), gradient_checkpoint.py: nothing of double blocks; of single ones
// the fused product of queries, keys and values, and attention's result.
TEST(RematOfFlux, OptimizedKeepsAttentionOfSingleBlocksAlone) {
  const std::vector<std::vector<Dims>> kept = kept_of_flux(remat_policy("FLUX_OPTIMIZED"));
  ASSERT_EQ(kept.size(), 2U);
  // Every policy keeps a block's inputs.
  EXPECT_THAT(kept[0], ElementsAre(kTextTokens, kImageTokens));
  const Dims heads{1, kText + kImage, 2, 16};
  EXPECT_EQ(kept[1].size(), 5U) << "input, queries, keys, values, attention";
  EXPECT_EQ(std::ranges::count(kept[1], kAllTokens) + std::ranges::count(kept[1], heads), 5);
}

TEST(RematOfFlux, OptimizedKeepsMoreThanFullAndLessThanEveryProduct) {
  const auto full = kept_of_flux(remat_policy("FULL"));
  const auto optimized = kept_of_flux(remat_policy("FLUX_OPTIMIZED"));
  const auto products = kept_of_flux(remat_policy("MATMUL_WITHOUT_BATCH"));
  EXPECT_EQ(optimized[0], full[0]);
  EXPECT_GT(products[0].size(), full[0].size());
  EXPECT_GT(optimized[1].size(), full[1].size());
  EXPECT_THAT(products[1], IsSupersetOf({Dims{1, kText + kImage, 4 * kWidth}}))
      << "what the feed-forward layer makes, which FLUX_OPTIMIZED computes again";
  EXPECT_EQ(std::ranges::count(optimized[1], Dims{1, kText + kImage, 4 * kWidth}), 0);
}

/// The number of values that a loop keeps under CUSTOM with one name, beyond those of FULL.
std::vector<size_t> more_with(const std::string& name) {
  const auto full = kept_of_flux(remat_policy("FULL"));
  const auto kept = kept_of_flux(remat_policy("CUSTOM", {name}));
  return {kept[0].size() - full[0].size(), kept[1].size() - full[1].size()};
}

TEST(RematOfFlux, TakesMaxDiffusionsNames) {
  EXPECT_THAT(more_with("img_qkv_proj"), ElementsAre(3, 0));
  EXPECT_THAT(more_with("txt_qkv_proj"), ElementsAre(3, 0));
  EXPECT_THAT(more_with("lin1_norm_hidden_states"), ElementsAre(0, 3));
  EXPECT_THAT(more_with("lin2_hidden_states"), ElementsAre(0, 1));
  EXPECT_THAT(more_with("attn_output"), ElementsAre(1, 1));
  EXPECT_THAT(more_with("key_proj_img"), ElementsAre(0, 0)) << "a name of Wan's";
}

/// The same for Wan 2.1 image-to-video.
size_t more_of_wan_with(const std::string& name) {
  const wan::TransformerConfig config{.num_attention_heads = 2,
                                      .in_channels = 36,
                                      .text_dim = 32,
                                      .ffn_dim = 64,
                                      .num_layers = 2,
                                      .image_dim = 16,
                                      .added_kv_proj_dim = 256};
  const auto kept = [&](const RematPolicy& policy) {
    nn::ModelOptions options{.remat = policy};
    options.attention.kind = nn::AttentionKind::DOT_PRODUCT;
    Graph graph;
    const std::vector<Tensor> params = inputs_of(graph, wan::parameters(config, options));
    const Tensor y =
        wan::transformer(params, config, options,
                         {.hidden_states = graph.input({DType::F32, {1, 36, 1, 4, 4}}),
                          .timestep = graph.input({DType::F32, {1}}),
                          .encoder_hidden_states = graph.input({DType::F32, {1, kText, 32}}),
                          .encoder_hidden_states_image = graph.input({DType::F32, {1, 5, 16}})});
    return kept_by_loops(graph, mean(square(y)), params).front().size();
  };
  return kept(remat_policy("CUSTOM", {name})) - kept(remat_policy("FULL"));
}

TEST(RematOfWan, TakesMaxDiffusionsNamesOfTextAndImageTokens) {
  for (const char* name : {"key_proj_text", "value_proj_text", "key_proj_img", "value_proj_img",
                           "query_proj_img", "key_proj", "value_proj"}) {
    EXPECT_EQ(more_of_wan_with(name), 1U) << name;
  }
  EXPECT_EQ(more_of_wan_with("query_proj"), 2U) << "of self- and cross-attention";
  EXPECT_EQ(more_of_wan_with("lin2_hidden_states"), 0U) << "a name of Flux's";
}

}  // namespace
}  // namespace kinema
