#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/gradient_check.h"
#include "kinema/core/error.h"
#include "kinema/models/vae/coder.h"
#include "kinema/models/vae/resample.h"

namespace kinema::vae {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Config small(bool residual = false) {
  Config c;
  c.base_dim = 4;
  c.z_dim = 2;
  c.num_res_blocks = 1;
  c.latents_mean = {0.0, 0.5};
  c.latents_std = {1.0, 2.0};
  c.is_residual = residual;
  if (residual) {
    c.in_channels = c.out_channels = 12;
    c.patch_size = 2;
  }
  return c;
}

/// 0, 1, 2, ... as [1, c, f, h, w].
HostArray counting(Dims dims) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  for (size_t i = 0; i < out.as<float>().size(); ++i) {
    out.as<float>()[i] = static_cast<float>(i);
  }
  return out;
}

class VaeTest : public pjrt::CpuTest {
 protected:
  std::vector<float> values(const HostArray& x, const std::function<Tensor(Tensor)>& function) {
    Graph graph;
    const std::vector<Tensor> y{function(graph.input(x.shape))};
    const std::vector<HostArray> arguments{x};
    const HostArray out = HostProgram(graph, y)(arguments)[0];
    return {out.as<float>().begin(), out.as<float>().end()};
  }
};

// One frame of 2 x 4 pixels of one channel: two patches of 2 x 2; inside a patch columns come
// before rows.
TEST_F(VaeTest, PatchesListColumnsBeforeRows) {
  const HostArray x = counting({1, 1, 1, 2, 4});

  EXPECT_EQ(values(x, [](Tensor t) { return patchify(t, 2); }),
            (std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(values(x, [](Tensor t) { return unpatchify(patchify(t, 2), 2); }),
            std::vector<float>(x.as<float>().begin(), x.as<float>().end()));
}

// Two frames of 2 x 2 pixels fold into 8 channels, of which neighbours are averaged.
TEST_F(VaeTest, AveragesNeighboursOfABlockInOrderOfFrameRowAndColumn) {
  const HostArray x = counting({1, 1, 2, 2, 2});

  EXPECT_EQ(values(x,
                   [](Tensor t) {
                     return average_down(t, 4, {2, 2});
                   }),
            (std::vector<float>{0.5, 2.5, 4.5, 6.5}));
}

TEST_F(VaeTest, PutsZerosBeforeAChunkThatIsNoWholeBlock) {
  const HostArray x = counting({1, 1, 1, 2, 2});

  EXPECT_EQ(values(x,
                   [](Tensor t) {
                     return average_down(t, 2, {2, 2});
                   }),
            (std::vector<float>{0, 1.5}));
}

// Two channels are repeated over the 8 positions of a block, 4 times each, so one fills the earlier
// frame, the other the later one.
TEST_F(VaeTest, RepeatsChannelsOverABlockAndDropsWhatIsBeforeTheFirstFrame) {
  const HostArray x = counting({1, 2, 1, 1, 1});

  EXPECT_EQ(values(x,
                   [](Tensor t) {
                     return repeat_up(t, 1, {2, 2}, false);
                   }),
            (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(values(x,
                   [](Tensor t) {
                     return repeat_up(t, 1, {2, 2}, true);
                   }),
            (std::vector<float>{1, 1, 1, 1}));
}

// 72 x 60 pixels are 4,320 tokens, more than one block of queries. With zero queries every token
// gets the mean of all values.
TEST_F(VaeTest, AttentionInBlocksOfQueriesSeesEveryPixel) {
  constexpr int64_t kRows = 72;
  constexpr int64_t kColumns = 60;
  HostArray x = counting({1, 1, 1, kRows, kColumns});
  for (float& value : x.as<float>()) {
    value = value < 100.0F ? -1.0F : 1.0F;  // the norm maps it to its sign
  }
  Graph graph;
  const Tensor input = graph.input(x.shape);
  nn::Binder binder;
  const auto set = [&](const char* key, Dims dims, std::vector<float> values) {
    binder.add(std::string("block.") + key, constant_f32(graph, std::move(dims), values));
  };
  set("norm.gamma", {1, 1, 1}, {1.0F});
  set("to_qkv.weight", {3, 1, 1, 1}, {0.0F, 1.0F, 1.0F});
  set("to_qkv.bias", {3}, {0.0F, 0.0F, 0.0F});
  set("proj.weight", {1, 1, 1, 1}, {1.0F});
  set("proj.bias", {1}, {0.0F});
  const std::vector<Tensor> y{
      AttentionBlock(nn::Params(binder, "block"), 1)(input, Precision::HIGHEST)};

  const std::vector<HostArray> arguments{x};
  const HostArray out = HostProgram(graph, y)(arguments)[0];

  const double pixels = kRows * kColumns;
  const double mean = (pixels - 200.0) / pixels;
  for (size_t i = 0; i < out.as<float>().size(); ++i) {
    // A sum of 4,320 ones and its quotient, in f32.
    ASSERT_NEAR(out.as<float>()[i], x.as<float>()[i] + mean, 1e-5) << i;
  }
}

/// A residual block with a change of channels on f64 inputs: video, both convolutions' caches,
/// parameters.
TEST_F(VaeTest, AResidualBlocksGradientMatchesFiniteDifferences) {
  nn::SpecCollector collector([](const std::string&) { return DType::F64; });
  const ResidualBlock shapes(nn::Params(collector, "block"), 2, 3);
  const std::vector<nn::ParamSpec> specs = collector.take();
  std::vector<HostArray> inputs{random_f64({1, 2, 1, 3, 2}), random_f64({1, 2, 2, 3, 2}, -1, 1, 1),
                                random_f64({1, 3, 2, 3, 2}, -1, 1, 2)};
  for (size_t i = 0; i < specs.size(); ++i) {
    inputs.push_back(random_f64(specs[i].shape.dims, -1.0, 1.0, i + 3));
  }

  expect_gradient_matches(
      [&](std::span<const Tensor> x) {
        nn::Binder binder(specs, x.subspan(3));
        History history(x.subspan(1, 2));
        return ResidualBlock(nn::Params(binder, "block"), 2, 3)(x[0], history, Precision::HIGHEST);
      },
      inputs);
}

TEST(VaeParameters, HaveTheKeysOfTheCheckpoints) {
  const auto names = [](const Config& config) {
    std::set<std::string> out;
    for (const nn::ParamSpec& spec : parameters(config, {})) {
      EXPECT_TRUE(out.insert(spec.name).second) << spec.name << " twice";
    }
    return out;
  };

  const std::set<std::string> flat = names(small());
  EXPECT_TRUE(flat.contains("encoder.down_blocks.2.conv_shortcut.weight"));
  EXPECT_TRUE(flat.contains("encoder.down_blocks.3.time_conv.weight"));
  EXPECT_TRUE(flat.contains("decoder.up_blocks.0.upsamplers.0.time_conv.bias"));
  const std::set<std::string> nested = names(small(true));
  EXPECT_TRUE(nested.contains("encoder.down_blocks.1.downsampler.time_conv.weight"));
  EXPECT_TRUE(nested.contains("decoder.up_blocks.0.upsampler.resample.1.weight"));
  EXPECT_FALSE(nested.contains("decoder.up_blocks.3.upsampler.resample.1.weight"));
}

// The published Wan 2.1 VAE has 126,892,531 parameters.
TEST(VaeParameters, AreAsManyAsPublished) {
  Config c;
  c.latents_mean = default_latents_mean();
  c.latents_std = default_latents_std();
  int64_t count = 0;
  for (const nn::ParamSpec& spec : parameters(c, {})) {
    count += spec.shape.elements();
  }
  EXPECT_EQ(count, 126'892'531);
}

TEST(VaeConfig, RefusesSizesThatDoNotFit) {
  const auto refused = [](const std::function<void(Config&)>& change, const char* part) {
    Config c = small();
    change(c);
    EXPECT_THAT([&] { validate(c); }, ThrowsMessage<Error>(HasSubstr(part)));
  };
  refused([](Config& c) { c.base_dim = 0; }, "`base_dim` is 0");
  refused([](Config& c) { c.dim_mult = {1}; }, "levels");
  refused([](Config& c) { c.temperal_downsample = {true}; }, "one less");
  refused([](Config& c) { c.attn_scales = {1.0}; }, "`attn_scales`");
  refused([](Config& c) { c.latents_mean = {0.0}; }, "one per channel");
  refused([](Config& c) { c.latents_std = {1.0, NAN}; }, "finite");
  refused([](Config& c) { c.latents_std = {1.0, 0.0}; }, "positive");
  refused([](Config& c) { c.patch_size = 2; }, "`in_channels` 3");
  refused(
      [](Config& c) {
        c.dim_mult = {1, 1, 1, 1};
        c.decoder_base_dim = 5;
      },
      "cannot halve");
  refused([](Config& c) { c.z_dim = int64_t{1} << 40; }, "`z_dim`");
}

TEST(VaeChunk, MustBeWholeLatentFrames) {
  const Config c = small();
  Graph graph;
  const auto specs = encoder_parameters(c, {});
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : specs) {
    params.push_back(graph.input(spec.shape, spec.name));
  }
  const Tensor two = graph.input({DType::F32, {1, 3, 2, 16, 16}});
  const Tensor odd = graph.input({DType::F32, {1, 3, 1, 16, 20}});

  EXPECT_THAT([&] { encode(params, c, {}, two, {}); },
              ThrowsMessage<Error>(HasSubstr("the first has one")));
  EXPECT_THAT([&] { encode(params, c, {}, odd, {}); },
              ThrowsMessage<Error>(HasSubstr("multiples of 8")));
}

}  // namespace
}  // namespace kinema::vae
