#include "kinema/sample/denoiser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/kernels/attention_record.h"
#include "sample/tiny_transformer.h"

namespace kinema::sample {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

/// Concatenates rows along the first axis.
HostArray joined(const HostArray& a, const HostArray& b) {
  Shape shape = a.shape;
  shape.dims[0] += b.shape.dims[0];
  HostArray out(shape);
  std::ranges::copy(b.bytes, std::ranges::copy(a.bytes, out.bytes.begin()).out);
  return out;
}

class Denoiser : public TwoTransformers {
 protected:
  static DenoiseBatch batch(uint64_t seed) {
    return {.latents = normal({1, 4, 2, 4, 4}, seed),
            .text = normal({1, 3, 6}, seed + 100),
            .negative_text = normal({1, 3, 6}, seed + 200)};
  }
  static DenoiseSettings settings(double guidance_scale = 3.0) {
    return {.schedule = schedulers::make_schedule({}, 4),
            .guidance_scale = guidance_scale,
            .guidance_scale_2 = guidance_scale};
  }
};

// Both forms are the same sums in another arrangement: a few float32 roundings of values near 1,
// propagated through 4 steps.
TEST_F(Denoiser, OneDoubledBatchEqualsTwoPasses) {
  Experts experts = one_expert();
  const std::vector<DenoiseBatch> batches{batch(1)};
  DenoiseSettings two = settings();
  two.two_passes = true;

  const auto doubled = denoise(experts, programs_, batches, settings());
  const auto passes = denoise(experts, programs_, batches, two);

  EXPECT_LT(largest_difference(doubled[0], passes[0]), 1e-4);
}

TEST_F(Denoiser, ADoubledBatchHasItsFirstSelfAttentionOnce) {
  const auto calls = [](const StepSpec& spec) {
    const auto record = std::make_shared<kernels::AttentionRecord>();
    const auto step = build_step(spec);
    emit(step->graph, step->outputs, {.lowering = kernels::recorded({}, record)});
    std::vector<std::pair<int64_t, int64_t>> out;  // samples, keys
    for (const kernels::AttentionCall& call : kernels::calls_of(*record)) {
      out.emplace_back(call.q.dims[0], call.keys());
    }
    return out;
  };
  StepSpec spec{.network = network_of(tiny(2)), .latents = {1, 4, 1, 4, 4}, .text_length = 3};
  EXPECT_THAT(calls(spec), UnorderedElementsAre(Pair(1, 4), Pair(2, 3), Pair(2, 4)));
  spec.guidance = Guidance::TWO_PASSES;
  EXPECT_THAT(calls(spec), UnorderedElementsAre(Pair(1, 4), Pair(1, 3)));
  // With a timestep per token nothing is checked.
  spec.guidance = Guidance::DOUBLED_BATCH;
  spec.expand_timesteps = true;
  EXPECT_THAT(calls(spec), UnorderedElementsAre(Pair(2, 4), Pair(2, 3)));
}

// Every option that distinguishes two pipelines also distinguishes their programs.
TEST_F(Denoiser, PipelinesThatDifferInAnyOptionHaveProgramsOfTheirOwn) {
  StepSpec spec{.network = network_of(tiny()), .latents = {1, 4, 1, 2, 2}, .text_length = 2};
  const runtime::Program* first = &programs_.get(spec);
  EXPECT_EQ(&programs_.get(spec), first);
  StepSpec attention = spec;
  attention.options.attention.blocks.block_q = 256;
  StepSpec remat = spec;
  remat.options.remat.kind = RematPolicy::Kind::FULL;
  EXPECT_NE(&programs_.get(attention), first);
  EXPECT_NE(&programs_.get(remat), first);
  EXPECT_NE(&programs_.get(remat), &programs_.get(attention));
  EXPECT_EQ(&programs_.get(spec), first) << "a program stays where it is";

  StepSpec dropout = spec;
  dropout.options.dropout = 0.1;
  EXPECT_NE(dropout, spec);
  const auto on = [](std::vector<int64_t> devices) {
    return mesh::Placement({.axes = {{{"data", 2}}}, .device_ids = std::move(devices)}, {});
  };
  StepSpec placed = spec;
  placed.options.place = on({0, 1});
  EXPECT_NE(placed, spec);
  StepSpec elsewhere = placed;
  elsewhere.options.place = on({1, 0});
  EXPECT_NE(elsewhere, placed);
  elsewhere.options.place = on({0, 1});
  EXPECT_EQ(elsewhere, placed);
}

TEST_F(Denoiser, GuidanceChangesTheResult) {
  Experts experts = one_expert();
  const std::vector<DenoiseBatch> batches{batch(1)};

  const auto weak = denoise(experts, programs_, batches, settings(1.5));
  const auto strong = denoise(experts, programs_, batches, settings(6.0));

  EXPECT_GT(largest_difference(weak[0], strong[0]), 1e-2);
}

TEST_F(Denoiser, WithoutGuidanceTheNegativePromptIsNotRead) {
  Experts experts = one_expert();
  DenoiseBatch without = batch(1);
  without.negative_text = HostArray();

  const auto results = denoise(experts, programs_, std::span(&without, 1), settings(1.0));

  EXPECT_EQ(results[0].shape, without.latents.shape);
}

// guidance_scale 1 and guidance_scale_2 3: no guidance; 3 and 1: the low-noise expert's own
// prediction. 4 steps, 2 for each expert.
TEST_F(Denoiser, TheHighNoiseScaleDecidesWhetherThereIsGuidance) {
  Experts experts = two_experts(0.9);
  const std::vector<DenoiseBatch> batches{batch(1)};
  const auto made = [&](double high, double low) {
    DenoiseSettings scales = settings(high);
    scales.guidance_scale_2 = low;
    return denoise(experts, programs_, batches, scales)[0];
  };
  EXPECT_EQ(made(1.0, 3.0).bytes, made(1.0, 1.0).bytes);
  EXPECT_EQ(made(0.5, 3.0).bytes, made(1.0, 1.0).bytes);
  // u + 1 (c - u) equals c up to rounding; a scale below 1 gives a value between the predictions.
  EXPECT_LT(largest_difference(made(3.0, 1.0), made(3.0, 1.0 + 1e-9)), 1e-4);
  EXPECT_GT(largest_difference(made(3.0, 0.5), made(3.0, 1.0)), 1e-2);
  EXPECT_GT(largest_difference(made(3.0, 1.0), made(1.0, 1.0)), 1e-2);
}

TEST_F(Denoiser, TwoVideosInABatchEqualTwoBatches) {
  Experts experts = one_expert();
  const std::vector<DenoiseBatch> apart{batch(1), batch(2)};
  const DenoiseBatch together{
      .latents = joined(apart[0].latents, apart[1].latents),
      .text = joined(apart[0].text, apart[1].text),
      .negative_text = joined(apart[0].negative_text, apart[1].negative_text)};

  const auto one_by_one = denoise(experts, programs_, apart, settings());
  const auto at_once = denoise(experts, programs_, std::span(&together, 1), settings());

  EXPECT_LT(largest_difference(joined(one_by_one[0], one_by_one[1]), at_once[0]), 1e-4);
}

TEST_F(Denoiser, TheBoundaryChoosesTheExpert) {
  Experts experts = two_experts(0.9);
  const std::vector<DenoiseBatch> batches{batch(1), batch(2)};
  std::vector<std::string> used;
  std::vector<int64_t> done;

  denoise(experts, programs_, batches, settings(), [&](const DenoiseStep& step) {
    used.push_back(step.expert + " " + std::to_string(step.batch));
    done.push_back(step.done);
    EXPECT_EQ(step.total, 8);
  });

  // shift 3, 4 steps: 999, 900, 751, 501; 900 is the boundary and belongs to high noise.
  EXPECT_THAT(used, ElementsAre("transformer 0", "transformer 0", "transformer 1", "transformer 1",
                                "transformer_2 0", "transformer_2 0", "transformer_2 1",
                                "transformer_2 1"));
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(Denoiser, ExpertsOfOneShapeShareAProgram) {
  Experts experts = two_experts(0.9);
  const std::vector<DenoiseBatch> batches{batch(1)};
  denoise(experts, programs_, batches, settings());
  const double seconds = programs_.compile_seconds();

  denoise(experts, programs_, batches, settings(4.0));

  EXPECT_EQ(programs_.compile_seconds(), seconds);
}

TEST_F(Denoiser, RefusesLatentsOfOtherChannels) {
  Experts experts = one_expert();
  DenoiseBatch wrong = batch(1);
  wrong.latents = normal({1, 5, 2, 4, 4}, 1);

  EXPECT_THAT(
      [&] { denoise(experts, programs_, std::span(&wrong, 1), settings()); },
      ThrowsMessage<Error>(HasSubstr("latents are f32[1,5,2,4,4], expected f32[b,4,f,h,w]")));
}

TEST_F(Denoiser, RefusesANegativePromptOfAnotherLength) {
  Experts experts = one_expert();
  DenoiseBatch wrong = batch(1);
  wrong.negative_text = normal({1, 2, 6}, 1);

  EXPECT_THAT([&] { denoise(experts, programs_, std::span(&wrong, 1), settings()); },
              ThrowsMessage<Error>(HasSubstr("negative prompt embeddings are f32[1,2,6]")));
}

TEST_F(Denoiser, SaysWhenTheResultIsNotFinite) {
  Experts experts = one_expert();
  DenoiseBatch wrong = batch(1);
  wrong.latents.as<float>()[0] = std::nanf("");

  EXPECT_THAT([&] { denoise(experts, programs_, std::span(&wrong, 1), settings()); },
              ThrowsMessage<Error>(HasSubstr("not finite")));
}

}  // namespace
}  // namespace kinema::sample
