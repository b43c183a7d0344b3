#include "sample/denoiser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/threefry.h"
#include "runtime/client.h"
#include "sample/temporary_folder.h"
#include "weights/weights.h"

namespace kinema::sample {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

pjrt::Client& client() {
  static pjrt::Client opened = runtime::open_client({});
  return opened;
}

wan::TransformerConfig tiny() {
  return {.num_attention_heads = 2,
          .attention_head_dim = 12,
          .in_channels = 4,
          .out_channels = 4,
          .text_dim = 6,
          .freq_dim = 8,
          .ffn_dim = 16,
          .num_layers = 1};
}

/// Random parameters everywhere: fresh ones would predict zero.
void save_transformer(const std::filesystem::path& folder, uint64_t seed) {
  auto specs = wan::parameters(tiny(), {});
  for (nn::ParamSpec& spec : specs) {
    spec.init = {.kind = nn::Init::Kind::NORMAL, .scale = 0.2};
  }
  const auto buffers = weights::initialise(specs, seed, client());
  weights::save(folder, tiny(), specs, buffers);
}

HostArray normal(Dims dims, uint64_t seed) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  RandomStream stream(random_key(seed, "test"));
  for (float& x : out.as<float>()) {
    x = stream.normal();
  }
  return out;
}

/// Rows of the first axis, one after the other.
HostArray joined(const HostArray& a, const HostArray& b) {
  Shape shape = a.shape;
  shape.dims[0] += b.shape.dims[0];
  HostArray out(shape);
  std::ranges::copy(b.bytes, std::ranges::copy(a.bytes, out.bytes.begin()).out);
  return out;
}

double largest_difference(const HostArray& a, const HostArray& b) {
  EXPECT_EQ(a.shape, b.shape);
  double largest = 0.0;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    largest = std::max<double>(largest, std::abs(a.as<float>()[i] - b.as<float>()[i]));
  }
  return largest;
}

class Denoiser : public testing::Test {
 protected:
  Denoiser() {
    save_transformer(folder_.path() / "transformer", 1);
    save_transformer(folder_.path() / "transformer_2", 2);
  }

  Experts one_expert() {
    return {
        client(), {.folder = folder_.path(), .transformer = folder_.path() / "transformer"}, {}};
  }
  Experts two_experts(double boundary) {
    return {client(),
            {.folder = folder_.path(),
             .transformer = folder_.path() / "transformer",
             .transformer_2 = folder_.path() / "transformer_2",
             .boundary_ratio = boundary},
            {}};
  }
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

  TemporaryFolder folder_;
  // Tests of one shape compile once.
  StepPrograms programs_{client(), {.executable_cache = program_cache()}};
};

// Both forms are the same sums in another arrangement: a few float32 roundings of values near 1,
// carried through 4 steps.
TEST_F(Denoiser, OneDoubledBatchEqualsTwoPasses) {
  Experts experts = one_expert();
  const std::vector<DenoiseBatch> batches{batch(1)};
  DenoiseSettings two = settings();
  two.two_passes = true;

  const auto doubled = denoise(experts, programs_, batches, settings());
  const auto passes = denoise(experts, programs_, batches, two);

  EXPECT_LT(largest_difference(doubled[0], passes[0]), 1e-4);
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

  // shift 3, 4 steps: 999, 900, 751, 501; 900 lies on the boundary and belongs to high noise.
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
