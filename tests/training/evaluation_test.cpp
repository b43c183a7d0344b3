#include "kinema/training/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/config/config.h"
#include "kinema/core/error.h"
#include "training/tiny.h"

namespace kinema::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;
using testing::ThrowsMessage;

TEST(SharedTimestep, GoesRoundTheListForTheFirstSamples) {
  const EvaluationOptions options{.timesteps = {100, 500}, .samples = 5};
  std::vector<int64_t> out;
  for (int64_t r = 0; r < 6; ++r) {
    out.push_back(shared_timestep(options, r));
  }
  EXPECT_THAT(out, ElementsAre(100, 500, 100, 500, 100, -1));
  EXPECT_EQ(shared_timestep({.timesteps = {}, .samples = 5}, 0), -1);
}

/// Samples of the tiny model's size, some with timesteps of their own.
class Samples : public data::Source {
 public:
  explicit Samples(std::vector<int64_t> timesteps) : timesteps_(std::move(timesteps)) {}
  int64_t size() const override { return std::ssize(timesteps_); }
  data::Sample at(int64_t position) const override {
    const Dims latents = tiny::shapes(1).latents.dims;
    const Dims text = tiny::shapes(1).text.dims;
    data::Sample sample{
        .latents = tiny::normal({latents.begin() + 1, latents.end()}, "latents", position),
        .encoder_hidden_states = tiny::normal({text.begin() + 1, text.end()}, "text", position),
        .timestep = {},
        .id = "sample"};
    if (timesteps_[static_cast<size_t>(position)] >= 0) {
      sample.timestep = timesteps_[static_cast<size_t>(position)];
    }
    return sample;
  }

 private:
  std::vector<int64_t> timesteps_;
};

// Five held-out clips and seven timesteps: numbers that users have without planning.
TEST(CheckEvaluation, TakesAnyNumberOfSamples) {
  const config::DataConfig defaults;
  const EvaluationOptions options{.timesteps = defaults.timesteps_list,
                                  .samples = defaults.num_eval_samples};
  for (const size_t count : {1U, 3U, 5U}) {
    EXPECT_NO_THROW(check_evaluation(options, {}, Samples(std::vector<int64_t>(count, -1))));
  }
}

TEST(CheckEvaluation, ExplainsWhyNoSampleIsEvaluated) {
  const ObjectiveOptions high{.min_timestep = 875};
  EXPECT_THAT(
      [&] {
        check_evaluation({}, high, Samples({125, 250}));
      },
      ThrowsMessage<Error>(HasSubstr("timesteps must be from 875 to 1000")));
  EXPECT_THAT([] { check_evaluation({.timesteps = {5}, .samples = 0}, {}, Samples({-1})); },
              ThrowsMessage<Error>(HasSubstr("num_eval_samples is 0")));
  EXPECT_NO_THROW(check_evaluation({}, high, Samples({125, 900})));
}

TEST(CheckEvaluation, RefusesATimestepThatTheScheduleLacks) {
  const auto refused = [](const EvaluationOptions& options, const ObjectiveOptions& objective,
                          const Samples& samples, const char* about) {
    EXPECT_THAT([&] { check_evaluation(options, objective, samples); },
                ThrowsMessage<Error>(HasSubstr(about)));
  };
  const ObjectiveOptions flow;
  const ObjectiveOptions diffusion{.diffusion = DiffusionObjective{}};
  const ObjectiveOptions short_one{.diffusion = DiffusionObjective{.num_train_timesteps = 500}};
  // Pure noise is the last timestep of a flow; a diffusion's table ends before it.
  EXPECT_NO_THROW(check_evaluation({}, flow, Samples({125, 1000})));
  EXPECT_NO_THROW(check_evaluation({}, diffusion, Samples({0, 999})));
  refused({}, diffusion, Samples({125, 1000}),
          "record 1 has timestep 1000, but the schedule of "
          "the model has 0 to 999");
  refused({}, short_one, Samples({500}), "has 0 to 499");
  refused({}, flow, Samples({125, 1001}), "record 1 has timestep 1001");
  refused({.timesteps = {125, 1000}, .samples = 1}, diffusion, Samples({-1}),
          "timesteps_list has timestep 1000");
  refused({.timesteps = {-5}, .samples = 1}, flow, Samples({-1}), "timesteps_list has timestep -5");
  // The list of timesteps is ignored if samples have their own.
  EXPECT_NO_THROW(check_evaluation({.timesteps = {875}, .samples = 1}, short_one, Samples({499})));
}

class Evaluations : public pjrt::CpuTest {
 protected:
  static Evaluation evaluate(int64_t batch, const data::Source& source, EvaluationOptions options,
                             const StepOptions& step = {}) {
    options.program.executable_cache = tiny::program_cache();
    pjrt::Client client = pjrt::cpu_client();
    const std::vector<runtime::Array> params = runtime::to_arrays(tiny::params(client));
    const Evaluator evaluator(client, tiny::specs(),
                              network_model(tiny::network(), tiny::options()), tiny::shapes(batch),
                              step, options);
    return evaluator.run(pointers_to<runtime::Array>(params), source);
  }
};

TEST_F(Evaluations, AreTheStepsLossAtTheirNoiseAndTimesteps) {
  const Samples source({250, 750});
  const Evaluation found = evaluate(2, source, {.seed = 5});

  pjrt::Client client = pjrt::cpu_client();
  StepOptions given;
  given.given_draw = true;
  for (int64_t r = 0; r < 2; ++r) {
    Trainer trainer = tiny::fresh_trainer(client, 1, given);
    HostArray noise({DType::F32, tiny::shapes(1).latents.dims});
    RandomStream random(random_key(5, "evaluation noise", static_cast<uint64_t>(r)));
    for (float& x : noise.as<float>()) {
      x = random.normal();
    }
    const float timestep = r == 0 ? 250 : 750;
    const float one = 1;
    const std::vector<HostArray> draw{
        noise, HostArray::from<float>(DType::F32, {1}, std::span(&timestep, 1)),
        HostArray::from<float>(DType::F32, {1}, std::span(&one, 1))};
    std::vector<data::Sample> sample{source.at(r)};
    const double loss = trainer.run(0, 0.0, data::stack(std::move(sample)), draw).loss;
    EXPECT_NEAR(found.by_timestep.at(static_cast<int64_t>(timestep)), loss, 1e-5 * loss);
  }
  EXPECT_DOUBLE_EQ(found.loss, (found.by_timestep.at(250) + found.by_timestep.at(750)) / 2);
}

TEST_F(Evaluations, DoNotDependOnTheBatch) {
  const Samples source({10, 10, 10, 900, 900});
  const Evaluation twos = evaluate(2, source, {});
  const Evaluation threes = evaluate(3, source, {});
  EXPECT_EQ(twos.samples, 5);
  ASSERT_THAT(threes.by_timestep, SizeIs(2));
  for (const auto& [timestep, loss] : twos.by_timestep) {
    EXPECT_NEAR(threes.by_timestep.at(timestep), loss, 1e-5 * loss);
  }
  EXPECT_EQ(evaluate(2, source, {}).by_timestep, twos.by_timestep) << "the same noise each time";
  EXPECT_NE(evaluate(2, source, {.seed = 1}).by_timestep, twos.by_timestep);
}

TEST_F(Evaluations, LimitSamplesPerTimestepAndDistributeSamplesWithoutOne) {
  EXPECT_EQ(evaluate(2, Samples({10, 10, 10, 900}), {.max_samples_per_timestep = 1}).samples, 2);

  const EvaluationOptions shared{.timesteps = {100, 500}, .samples = 4};
  const Samples bare({-1, -1, -1, -1, -1});
  EXPECT_THAT(evaluate(2, bare, shared).by_timestep,
              ElementsAre(Pair(100, testing::Gt(0)), Pair(500, testing::Gt(0))));
  EXPECT_THAT([&] { evaluate(2, bare, {.timesteps = {100}, .samples = 0}); },
              ThrowsMessage<Error>(HasSubstr("none of 5 samples is evaluated")));
}

// A timestep beyond the table would select nothing: an input of zeros.
TEST_F(Evaluations, OfADiffusionHaveNoLossBeyondItsTable) {
  StepOptions step;
  step.objective.diffusion = DiffusionObjective{};
  EXPECT_GT(evaluate(1, Samples({999}), {}, step).loss, 0);
  EXPECT_THAT([&] { evaluate(1, Samples({1000}), {}, step); },
              ThrowsMessage<Error>(HasSubstr("has 0 to 999")));
  EXPECT_THAT([&] { evaluate(1, Samples({-1}), {.timesteps = {1000}, .samples = 1}, step); },
              ThrowsMessage<Error>(HasSubstr("timesteps_list has timestep 1000")));
}

TEST(EvaluationLines, NameEachTimestep) {
  EXPECT_THAT(
      evaluation_lines(19, {.by_timestep = {{125, 0.5}}, .loss = 0.5, .samples = 3}, 1.25),
      ElementsAre("evaluation after step 20: 3 samples in 1.25 s",
                  "  mean eval loss for timestep 125: 0.5000", "  average eval loss: 0.5000"));
}

}  // namespace
}  // namespace kinema::training
