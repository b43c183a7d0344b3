#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/models/wan/transformer.h"

namespace kinema::wan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TransformerConfig published(int64_t layers, int64_t heads, int64_t ffn, int64_t in, int64_t out) {
  return {.num_attention_heads = heads,
          .in_channels = in,
          .out_channels = out,
          .ffn_dim = ffn,
          .num_layers = layers};
}

int64_t count(const TransformerConfig& config, bool scan = true) {
  int64_t sum = 0;
  for (const nn::ParamSpec& spec : parameters(config, {.scan_layers = scan})) {
    sum += spec.shape.elements();
  }
  return sum;
}

TEST(WanParameters, CountThoseOfThePublishedModels) {
  TransformerConfig i2v = published(40, 40, 13824, 36, 16);
  EXPECT_EQ(count(published(30, 12, 8960, 16, 16)), 1'418'996'800);    // 2.1 T2V 1.3B
  EXPECT_EQ(count(published(40, 40, 13824, 16, 16)), 14'288'491'584);  // 2.1 T2V 14B, 2.2 T2V
  EXPECT_EQ(count(i2v), 14'288'901'184);                               // 2.2 I2V
  EXPECT_EQ(count(published(30, 24, 14336, 48, 48)), 4'999'787'712);   // 2.2 TI2V 5B
  i2v.image_dim = 1280;
  i2v.added_kv_proj_dim = 5120;
  EXPECT_EQ(count(i2v), 16'394'878'784);  // 2.1 I2V
  TransformerConfig animate = i2v;
  animate.animate = AnimateConfig{};
  EXPECT_EQ(count(animate), 17'274'816'884);         // 2.2 Animate
  EXPECT_EQ(count(animate, false), count(animate));  // with stacked and single adapters
  i2v.pos_embed_seq_len = 514;
  EXPECT_EQ(count(i2v), 16'394'878'784 + 514 * 1280);  // 2.1 FLF2V
}

TEST(WanParameters, AreTheSameTensorsScannedAndUnrolled) {
  TransformerConfig config = published(3, 2, 64, 36, 16);
  config.image_dim = 32;
  config.added_kv_proj_dim = 256;
  std::map<std::string, Shape> scanned;
  for (const nn::ParamSpec& spec : parameters(config, {.scan_layers = true})) {
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      EXPECT_TRUE(scanned.emplace(spec.key(layer), spec.layer_shape()).second) << spec.key(layer);
    }
  }
  std::map<std::string, Shape> unrolled;
  for (const nn::ParamSpec& spec : parameters(config, {.scan_layers = false})) {
    EXPECT_EQ(spec.axes.size(), spec.shape.dims.size()) << spec.name;
    unrolled.emplace(spec.name, spec.shape);
  }
  EXPECT_EQ(scanned, unrolled);
}

TEST(WanParameters, KeepNormsEmbeddersAndTablesInF32) {
  std::set<std::string> half;
  for (const nn::ParamSpec& spec :
       parameters(published(1, 1, 64, 16, 16), {.weights_dtype = DType::BF16})) {
    if (spec.shape.dtype == DType::BF16) {
      half.insert(spec.name);
    }
  }
  EXPECT_TRUE(half.contains("blocks.{}.attn1.to_q.weight"));
  EXPECT_TRUE(half.contains("patch_embedding.weight"));
  EXPECT_TRUE(half.contains("proj_out.bias"));
  EXPECT_FALSE(half.contains("blocks.{}.attn1.norm_q.weight"));
  EXPECT_FALSE(half.contains("blocks.{}.scale_shift_table"));
  EXPECT_FALSE(half.contains("condition_embedder.text_embedder.linear_1.weight"));
}

TEST(WanParameters, NameTheLogicalAxes) {
  std::map<std::string, std::vector<std::string>> axes;
  for (const nn::ParamSpec& spec : parameters(published(1, 1, 64, 16, 16), {})) {
    axes[spec.name] = spec.axes;
  }
  using Axes = std::vector<std::string>;
  EXPECT_EQ(axes["blocks.{}.attn1.to_q.weight"], (Axes{"heads", "embed"}));
  EXPECT_EQ(axes["blocks.{}.attn2.to_out.0.weight"], (Axes{"embed", "heads"}));
  EXPECT_EQ(axes["blocks.{}.ffn.net.0.proj.weight"], (Axes{"mlp", "embed"}));
  EXPECT_EQ(axes["blocks.{}.ffn.net.2.weight"], (Axes{"embed", "mlp"}));
  EXPECT_EQ(axes["blocks.{}.attn1.norm_q.weight"], (Axes{"norm"}));
  EXPECT_EQ(axes["patch_embedding.weight"], (Axes{"conv_out", "", "", "", ""}));
}

TEST(WanParameters, FollowTheInitOptions) {
  const TransformerConfig config = published(1, 1, 64, 16, 16);
  const auto find = [&](const char* name, const nn::InitOptions& options) {
    for (const nn::ParamSpec& spec : parameters(config, {}, options)) {
      if (spec.name == name) {
        return spec.init;
      }
    }
    fail("no parameter {}", name);
  };
  const char* table = "blocks.{}.scale_shift_table";
  const char* text = "condition_embedder.text_embedder.linear_1.weight";
  using Kind = nn::Init::Kind;
  EXPECT_EQ(find("proj_out.weight", {}).kind, Kind::ZEROS);
  EXPECT_EQ(find(text, {}).kind, Kind::NORMAL);
  EXPECT_EQ(find(text, {.text = nn::InitOptions::Text::XAVIER}).kind, Kind::XAVIER_UNIFORM);
  EXPECT_TRUE(find(table, {}).row_offsets.empty());
  EXPECT_EQ(find(table, {.gate_bias = 0.5}).row_offsets,
            (std::vector<double>{0.0, 0.0, 0.5, 0.0, 0.0, 0.5}));
}

TEST(WanConfig, RefusesSizesThatCannotBe) {
  const auto with = [](auto change) {
    TransformerConfig config;
    change(config);
    return [config] { validate(config); };
  };
  EXPECT_THAT(with([](auto& c) { c.num_layers = 1'000'000'000'000'000'000; }),
              ThrowsMessage<Error>(HasSubstr("`num_layers` is 1000000000000000000")));
  EXPECT_THAT(with([](auto& c) { c.num_attention_heads = -1; }),
              ThrowsMessage<Error>(HasSubstr("`num_attention_heads` is -1")));
  EXPECT_THAT(with([](auto& c) { c.attention_head_dim = 33; }),
              ThrowsMessage<Error>(HasSubstr("must be even")));
  EXPECT_THAT(with([](auto& c) { c.eps = std::nan(""); }),
              ThrowsMessage<Error>(HasSubstr("`eps` is nan")));
  EXPECT_THAT(with([](auto& c) { c.image_dim = 1280; }),
              ThrowsMessage<Error>(HasSubstr("image conditioning needs both")));
  EXPECT_THAT(with([](auto& c) {
                c.patch_size = {1, 0, 2};
              }),
              ThrowsMessage<Error>(HasSubstr("`patch_size` is 0")));
}

/// The published sizes with few tokens: only shapes and program text, nothing is run.
struct Built {
  Graph graph;
  std::vector<Tensor> params;
  Tensor output;
};

std::unique_ptr<Built> build(const TransformerConfig& config, const nn::ModelOptions& options,
                             const Dims& video, bool per_token = false) {
  auto built = std::make_unique<Built>();
  for (const nn::ParamSpec& spec : parameters(config, options)) {
    built->params.push_back(built->graph.input(spec.shape, spec.name));
  }
  const int64_t tokens = video[2] * (video[3] / 2) * (video[4] / 2);
  TransformerInputs in{
      .hidden_states = built->graph.input({DType::F32, video}),
      .timestep =
          built->graph.input({DType::F32, per_token ? Dims{video[0], tokens} : Dims{video[0]}}),
      .encoder_hidden_states = built->graph.input({DType::F32, {video[0], 512, config.text_dim}})};
  if (config.image_dim > 0) {
    in.encoder_hidden_states_image =
        built->graph.input({DType::F32, {video[0], 257, config.image_dim}});
  }
  built->output = transformer(built->params, config, options, in);
  return built;
}

TEST(WanTransformer, GivesTheVideoShapeAtPublishedSizes) {
  const nn::ModelOptions half{.weights_dtype = DType::BF16, .activations_dtype = DType::BF16};
  EXPECT_EQ(build(published(30, 12, 8960, 16, 16), half, {1, 16, 21, 60, 104})->output.shape(),
            (Shape{DType::BF16, {1, 16, 21, 60, 104}}));
  EXPECT_EQ(
      build(published(30, 24, 14336, 48, 48), half, {1, 48, 31, 44, 80}, true)->output.shape(),
      (Shape{DType::BF16, {1, 48, 31, 44, 80}}));
  TransformerConfig i2v = published(40, 40, 13824, 36, 16);
  i2v.image_dim = 1280;
  i2v.added_kv_proj_dim = 5120;
  EXPECT_EQ(build(i2v, half, {2, 36, 21, 90, 160})->output.shape(),
            (Shape{DType::BF16, {2, 16, 21, 90, 160}}));
}

TEST(WanTransformer, ProgramSizeDoesNotGrowWithScannedLayers) {
  const auto size = [](int64_t layers) {
    const auto built = build(published(layers, 12, 8960, 16, 16), {}, {1, 16, 21, 60, 104});
    return emit(built->graph, std::vector<Tensor>{built->output}).size();
  };
  const size_t four = size(4);
  EXPECT_LE(size(40), four + 200);  // digits of the layer count only
  EXPECT_LE(four, 200'000U);
}

TEST(WanTransformer, WritesTheModelPathIntoLocations) {
  const auto built = build(published(2, 1, 64, 16, 16), {}, {1, 16, 1, 4, 4});
  const std::string text = emit(built->graph, std::vector<Tensor>{built->output});
  for (const char* path : {"patch_embedding/", "condition_embedder/", "blocks/attn1/",
                           "blocks/attn2/", "blocks/ffn/", "proj_out/"}) {
    EXPECT_THAT(text, HasSubstr(path));
  }
}

TEST(WanTransformer, NamesInputsThatDoNotFit) {
  const TransformerConfig config = published(1, 1, 64, 16, 16);
  EXPECT_THAT(
      [&] {
        build(config, {}, {1, 16, 1, 5, 4});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("f32[1,16,1,5,4]"), HasSubstr("patch"))));
  EXPECT_THAT(
      [&] {
        build(config, {}, {1, 8, 1, 4, 4});
      },
      ThrowsMessage<Error>(HasSubstr("must be [b, 16, f, h, w]")));
  EXPECT_THAT(
      [&] {
        build(config, {}, {1, 16, 1, 4, 4096});
      },
      ThrowsMessage<Error>(HasSubstr("rope_max_seq_len")));
}

/// Four devices along the sequence, with the default rules.
mesh::Placement four_along_context(const char* attention, bool uniform = true) {
  mesh::Settings sizes;
  sizes.ici_context_parallelism = 4;
  const std::vector<mesh::Device> devices{{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  const auto rules = mesh::AxisRules::parse(sizes.logical_axis_rules, "logical_axis_rules");
  return {mesh::make_mesh(sizes, devices), rules.for_attention(attention, uniform)};
}

TEST(WanTransformer, AsksOfAttentionWhatItsDevicesCanGive) {
  const TransformerConfig config = published(1, 4, 64, 16, 16);
  const Dims video{1, 16, 21, 60, 104};  // 32760 tokens, 8190 on each device
  nn::ModelOptions options{.place = four_along_context("ulysses_ring")};
  options.attention.kind = nn::AttentionKind::ULYSSES_RING;
  options.attention.ulysses_shards = 3;
  EXPECT_THAT([&] { build(config, options, video); },
              ThrowsMessage<Error>(HasSubstr("set ulysses_shards to a divisor of 4")));
  options.attention.kind = nn::AttentionKind::RING;
  options.attention.blocks.block_q_dkv = -384;
  EXPECT_THAT([&] { build(config, options, video); },
              ThrowsMessage<Error>(HasSubstr("block_q_dkv is -384")));
}

TEST(WanTransformer, SendsBetweenDevicesWhatTheKindSays) {
  const TransformerConfig config = published(1, 4, 64, 16, 16);
  const auto program = [&](nn::AttentionKind kind, const char* name, bool uniform) {
    nn::ModelOptions options{.place = four_along_context(name, uniform)};
    options.attention.kind = kind;
    const auto built = build(config, options, {1, 16, 3, 8, 8});
    return emit(built->graph, std::vector<Tensor>{built->output},
                {.mesh = options.place.mesh().axes});
  };
  const auto holds = [](const std::string& text, const char* op) {
    return text.find(std::string("\"stablehlo.") + op) != std::string::npos;
  };
  const std::string ring = program(nn::AttentionKind::RING, "ring", true);
  EXPECT_TRUE(holds(ring, "collective_permute"));
  EXPECT_FALSE(holds(ring, "all_to_all"));
  const std::string ulysses = program(nn::AttentionKind::ULYSSES, "ulysses", true);
  EXPECT_TRUE(holds(ulysses, "all_to_all"));
  EXPECT_FALSE(holds(ulysses, "collective_permute"));
  EXPECT_TRUE(holds(program(nn::AttentionKind::FLASH, "flash", true), "all_gather"));
  // Heads are sharded instead: each device has all tokens of one head.
  const std::string by_heads = program(nn::AttentionKind::FLASH, "flash", false);
  EXPECT_FALSE(holds(by_heads, "all_gather"));
  EXPECT_THAT(by_heads, HasSubstr("sdy.manual_computation"));
}

}  // namespace
}  // namespace kinema::wan
