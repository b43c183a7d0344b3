// Denoising over a mesh of CPU devices gives the same result as one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kinema/core/error.h"
#include "kinema/sample/denoiser.h"
#include "kinema/sample/latents.h"
#include "kinema/sample/memory.h"
#include "runtime/cpu_mesh.h"
#include "sample/tiny_transformer.h"

namespace kinema::sample {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kSteps = 4;

wan::TransformerConfig eight_heads() {
  wan::TransformerConfig config = tiny(2);
  config.num_attention_heads = 8;
  config.ffn_dim = 32;
  return config;
}

struct Layout {
  const char* attention;
  int64_t data, fsdp, context, tensor;
};

class MeshDenoiser : public TwoTransformers {
 protected:
  MeshDenoiser() : TwoTransformers(eight_heads()) {}

  static const pjrt::Client& eight() {
    static const pjrt::Client client = runtime::open_client({.cpu_devices = 8});
    return client;
  }
  static runtime::Devices devices(const Layout& of) {
    return runtime::devices_of(
        eight(), runtime::mesh_sizes(of.data, of.fsdp, of.context, of.tensor), of.attention);
  }

  /// 32 tokens of each of two videos; 5 text tokens are divisible over no axis.
  static DenoiseBatch batch() {
    return {.latents = normal({2, 4, 2, 8, 8}, 1),
            .text = normal({2, 5, 6}, 101),
            .negative_text = normal({2, 5, 6}, 201)};
  }
  static DenoiseSettings settings(const ReuseSettings& reuse = {}) {
    return {.schedule = schedulers::make_schedule({}, kSteps),
            .guidance_scale = 3.0,
            .guidance_scale_2 = 2.0,
            .reuse = reuse};
  }

  HostArray made(const runtime::Devices& on, const DenoiseSettings& settings,
                 const char* attention = "flash", const DenoiseBatch& of = batch()) {
    nn::ModelOptions options;
    options.attention.kind = nn::attention_kind(attention);
    Experts experts(on,
                    {.folder = folder_.path(),
                     .transformer = folder_.path() / "transformer",
                     .transformer_2 = folder_.path() / "transformer_2",
                     .boundary_ratio = 0.9},
                    options);
    StepPrograms programs(on, {.executable_cache = program_cache()});
    return denoise(experts, programs, std::span(&of, 1), settings)[0];
  }
};

// Sums in another order: a few float32 roundings of values near 1, propagated through 4 steps.
constexpr double kRounding = 1e-4;

TEST_F(MeshDenoiser, GivesOneDevicesLatentsInEveryLayout) {
  const HostArray expected = made(client(), settings());
  for (const Layout& each :
       {Layout{"flash", 4, 1, 1, 1}, Layout{"flash", 1, 4, 1, 1}, Layout{"flash", 1, 1, 4, 2},
        Layout{"ulysses", 1, 1, 4, 2}, Layout{"ring", 2, 1, 2, 2}}) {
    SCOPED_TRACE(testing::Message()
                 << each.attention << each.data << each.fsdp << each.context << each.tensor);
    EXPECT_LT(largest_difference(made(devices(each), settings(), each.attention), expected),
              kRounding);
  }
}

// MaxDiffusion's layout for one video: its prompt and negative prompt are not divisible over fsdp.
TEST_F(MeshDenoiser, TokensLieOnFsdpWherePromptsDoNotDivide) {
  const HostArray expected = made(client(), settings());
  for (const Layout& each :
       {Layout{"flash", 1, 8, 1, 1}, Layout{"ring", 1, 8, 1, 1}, Layout{"ulysses", 1, 8, 1, 1},
        Layout{"flash", 4, 2, 1, 1}, Layout{"ring", 1, 3, 2, 1}}) {
    SCOPED_TRACE(testing::Message() << each.attention << " data=" << each.data
                                    << " fsdp=" << each.fsdp << " context=" << each.context);
    EXPECT_LT(largest_difference(made(devices(each), settings(), each.attention), expected),
              kRounding);
  }
}

TEST_F(MeshDenoiser, OnFsdpGivesTheBitsOfContext) {
  for (const char* attention : {"flash", "ring", "ulysses"}) {
    EXPECT_EQ(made(devices({attention, 1, 8, 1, 1}), settings(), attention).bytes,
              made(devices({attention, 1, 1, 8, 1}), settings(), attention).bytes)
        << attention;
  }
}

// The noise of a sampler that draws it depends on the seed, the video's index and the step.
TEST_F(MeshDenoiser, DrawsTheNoiseOfOneDevice) {
  const schedulers::ScheduleConfig sampler{.sampler = schedulers::Sampler::DPM_MULTISTEP,
                                           .noise = schedulers::Noise::FLOW,
                                           .solver = {.stochastic = true}};
  const DenoiseSettings settings{.schedule = schedulers::make_schedule(sampler, kSteps),
                                 .guidance_scale = 1.0,
                                 .guidance_scale_2 = 1.0,
                                 .seed = 7};
  DenoiseBatch both = batch();
  both.negative_text = HostArray();
  both.indices = {3, 8};
  const HostArray on_mesh = made(devices({"flash", 2, 1, 1, 1}), settings, "flash", both);
  for (int64_t i = 0; i < 2; ++i) {
    const DenoiseBatch alone{.latents = take_rows(both.latents, {i}),
                             .text = take_rows(both.text, {i}),
                             .indices = {both.indices[static_cast<size_t>(i)]}};
    EXPECT_LT(largest_difference(take_rows(on_mesh, {i}), made(client(), settings, "flash", alone)),
              kRounding)
        << i;
  }
  both.indices = {8, 3};
  EXPECT_GT(
      largest_difference(made(devices({"flash", 2, 1, 1, 1}), settings, "flash", both), on_mesh),
      100 * kRounding);
}

TEST_F(MeshDenoiser, WhatOneStepKeepsForLaterOnesStaysOnTheDevices) {
  const ReuseSettings keys{.keys = true};
  ReuseSettings blocks = keys;
  blocks.magcache = MagCache{
      .ratios = std::vector<double>(2 * kSteps, 0.99), .threshold = 0.05, .longest_skip = 2};
  for (const ReuseSettings& reuse : {keys, blocks}) {
    const HostArray expected = made(client(), settings(reuse));
    for (const Layout& layout : {Layout{"flash", 2, 1, 2, 2}, Layout{"flash", 1, 8, 1, 1}}) {
      EXPECT_LT(largest_difference(made(devices(layout), settings(reuse)), expected), kRounding);
    }
  }
}

TEST_F(MeshDenoiser, EachDeviceHoldsItsShareOfTheWeights) {
  Experts whole = one_expert();
  nn::ModelOptions options = whole.options();
  const int64_t all = parameter_bytes(whole.network(0), options, client());
  const runtime::Devices on = devices({"flash", 1, 4, 1, 2});
  Experts split(on, {.folder = folder_.path(), .transformer = folder_.path() / "transformer"}, {});
  int64_t held = 0;
  for (const runtime::Array* each : split.parameters(0)) {
    held += each->bytes_per_device();
  }
  EXPECT_EQ(held, parameter_bytes(split.network(0), split.options(), on));
  // Matrices are sharded over eight devices; norms, their biases and the time embedding's are not.
  EXPECT_LT(held, all / 2);
}

TEST_F(MeshDenoiser, SaysWhichBatchWouldDivide) {
  StepSpec spec{.network = network_of(eight_heads()), .latents = {1, 4, 2, 8, 8}, .text_length = 5};
  spec.options.place = devices({"flash", 4, 1, 1, 1}).placement();
  EXPECT_THAT([&] { check_contexts(spec); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[mesh] 2 prompts and negative prompts"),
                                         HasSubstr("4 devices of `activation_batch` (data)"),
                                         HasSubstr("generate_batch_size=2"))));
  spec.guidance = Guidance::NONE;
  EXPECT_THAT([&] { check_contexts(spec); },
              ThrowsMessage<Error>(HasSubstr("generate_batch_size=4")));
  spec.latents[0] = 4;
  EXPECT_NO_THROW(check_contexts(spec));
}

TEST_F(MeshDenoiser, RefusesHeadsThatDoNotDivide) {
  EXPECT_THAT(
      [&] {
        Experts(devices({"flash", 1, 1, 1, 3}),
                {.folder = folder_.path(), .transformer = folder_.path() / "transformer"}, {});
      },
      ThrowsMessage<Error>(HasSubstr("8 attention heads do not divide over tensor=3")));
}

}  // namespace
}  // namespace kinema::sample
