#include "kinema/models/wan/products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kinema/core/error.h"
#include "kinema/core/pattern.h"
#include "kinema/graph/emit.h"
#include "kinema/models/wan/transformer.h"

namespace kinema::wan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ModulePath, IsTheOneOfMaxDiffusion) {
  EXPECT_EQ(module_path("patch_embedding"), "patch_embedding");
  EXPECT_EQ(module_path("condition_embedder.time_embedder.linear_1"),
            "condition_embedder/time_embedder/linear_1");
  EXPECT_EQ(module_path("condition_embedder.image_embedder.ff.net.0.proj"),
            "condition_embedder/image_embedder/ff/net_0");
  EXPECT_EQ(module_path("condition_embedder.image_embedder.ff.net.2"),
            "condition_embedder/image_embedder/ff/net_2");
  EXPECT_EQ(module_path("blocks.{}.attn1.to_q"), "blocks/attn1/query");
  EXPECT_EQ(module_path("blocks.{}.attn1.attention_op"), "blocks/attn1/attention_op");
  EXPECT_EQ(module_path("blocks.{}.attn2.to_out.0"), "blocks/attn2/proj_attn");
  EXPECT_EQ(module_path("blocks.{}.attn2.add_k_proj"), "blocks/attn2/add_k_proj");
  EXPECT_EQ(module_path("blocks.11.ffn.net.0.proj"), "blocks/11/ffn/act_fn/proj");
  EXPECT_EQ(module_path("blocks.{}.ffn.net.2"), "blocks/ffn/proj_out");
}

/// An image-to-video model: it has every kind of module.
TransformerConfig small() {
  return {.num_attention_heads = 2,
          .attention_head_dim = 8,
          .in_channels = 4,
          .out_channels = 4,
          .text_dim = 16,
          .freq_dim = 16,
          .ffn_dim = 32,
          .num_layers = 2,
          .image_dim = 16,
          .added_kv_proj_dim = 16};
}

std::string forward_text(const nn::ModelOptions& options) {
  const TransformerConfig config = small();
  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : parameters(config, options)) {
    params.push_back(graph.input(spec.shape));
  }
  const Tensor y =
      transformer(params, config, options,
                  {.hidden_states = graph.input({DType::F32, {1, 4, 1, 4, 4}}),
                   .timestep = graph.input({DType::F32, {1}}),
                   .encoder_hidden_states = graph.input({DType::F32, {1, 3, 16}}),
                   .encoder_hidden_states_image = graph.input({DType::F32, {1, 257, 16}})});
  return emit(graph, std::vector{y});
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

// A product of codes has the result type s32, one of floats f32.
size_t narrow(const std::string& text) {
  size_t found = 0;
  for (size_t at = text.find("stablehlo.dot_general"); at != std::string::npos;
       at = text.find("stablehlo.dot_general", at + 1)) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    found += line.find("xi32>)") != std::string::npos ? 1 : 0;
  }
  return found;
}

TEST(Quantization, IsOfTheModulesWhosePathMatches) {
  const auto products = [](const std::string& path, bool scan) {
    nn::ModelOptions options{.scan_layers = scan};
    options.quantization = {.mode = nn::Quantization::Mode::INT8, .module_path = path};
    const std::string text = forward_text(options);
    return std::pair(narrow(text), count(text, "stablehlo.dot_general"));
  };
  // Outside of blocks: patch embedding, 2 + 1 for the time, 2 for the text, 2 for the image, the
  // head: 9. A block: 4 and 6 projections, 2 in the feed-forward layer, and two products in each of
  // three attentions: 18.
  EXPECT_EQ(products(".*", true), std::pair(size_t{27}, size_t{27}));
  EXPECT_EQ(products(".*", false), std::pair(size_t{45}, size_t{45}));
  EXPECT_EQ(products("(?!.*attention_op).*", true).first, 21U);
  EXPECT_EQ(products("blocks/.*", true).first, 18U);
  EXPECT_EQ(products("blocks/attn[12]/(query|key)", true).first, 4U);
  EXPECT_EQ(products("blocks/1/.*", false).first, 18U);
  EXPECT_EQ(products("patch_embedding", true).first, 1U);
}

TEST(Quantization, NamesTheNearestModuleWhereNoneMatches) {
  const auto open = [](const std::string& path, bool scan) {
    nn::ModelOptions options{.scan_layers = scan};
    options.quantization = {.mode = nn::Quantization::Mode::FP8, .module_path = path};
    return parameters(small(), options);
  };
  EXPECT_THAT([&] { open("blocks/attn1/querry", true); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`blocks/attn1/querry`"),
                                         HasSubstr("the nearest is `blocks/attn1/query`"))));
  // Scanned layers have no numbers, as in MaxDiffusion.
  EXPECT_THAT([&] { open("blocks/0/attn1/query", true); },
              ThrowsMessage<Error>(HasSubstr("`blocks/attn1/query`")));
  EXPECT_NO_THROW(open("blocks/0/attn1/query", false));
  EXPECT_THAT([&] { open("blocks", true); }, ThrowsMessage<Error>(HasSubstr("no module")));
}

}  // namespace
}  // namespace kinema::wan
