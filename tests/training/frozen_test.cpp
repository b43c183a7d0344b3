// A network with half of its parameters frozen: they are inputs of the step, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/io/safetensors.h"
#include "kinema/training/checkpoint.h"
#include "tiny.h"

namespace kinema::training {
namespace {

const StepOptions kOptions{.adamw = {.weight_decay = 0.01, .max_norm = 1e9}, .ema = {.decay = 0.9}};

/// Feed-forward layers, patches and the outermost layers are frozen; attention is trained.
std::vector<nn::ParamSpec> half_frozen() {
  std::vector<nn::ParamSpec> specs = tiny::specs();
  for (nn::ParamSpec& spec : specs) {
    spec.trained = spec.name.find(".attn") != std::string::npos;
  }
  return specs;
}

Trainer trainer(pjrt::Client& client, const std::vector<nn::ParamSpec>& specs, State state,
                const StepOptions& step = kOptions) {
  return {client,
          specs,
          network_model(tiny::network(), tiny::options()),
          tiny::shapes(2),
          step,
          std::move(state),
          {.program = {.executable_cache = tiny::program_cache()}}};
}

State fresh(pjrt::Client& client, const std::vector<nn::ParamSpec>& specs,
            const StepOptions& step = kOptions) {
  return fresh_state(tiny::params(client), specs, step.ema.is_on(), client);
}

class Frozen : public pjrt::CpuTest {
 protected:
  pjrt::Client client_ = pjrt::cpu_client();
};

TEST_F(Frozen, PartsHaveMomentsAndAveragesOfTheTrainedOnly) {
  const std::vector<nn::ParamSpec> specs = half_frozen();
  const State state = fresh(client_, specs);

  const size_t trained = trained_specs(specs).size();
  EXPECT_GT(trained, 4U);
  EXPECT_GT(state.frozen.size(), 4U);
  EXPECT_EQ(state.frozen.size() + trained, specs.size());
  EXPECT_EQ(state.mu.size(), trained);
  EXPECT_EQ(state.nu.size(), trained);
  EXPECT_EQ(state.ema.size(), trained);
  EXPECT_EQ(state.changed(), 4 * trained + 1);
}

TEST_F(Frozen, IsUnchangedWhileTheRestTrains) {
  const std::vector<nn::ParamSpec> specs = half_frozen();
  Trainer half = trainer(client_, specs, fresh(client_, specs));
  Trainer whole = trainer(client_, tiny::specs(), fresh(client_, tiny::specs()));

  const StepResult a = half.run(0, 1e-3, tiny::batch(2, 0));
  const StepResult b = whole.run(0, 1e-3, tiny::batch(2, 0));

  EXPECT_NEAR(a.loss, b.loss, 1e-6 * b.loss);
  EXPECT_LT(a.gradient_norm, b.gradient_norm);
  const std::vector<pjrt::Buffer> start = tiny::params(client_);
  const auto now = half.state().params();
  const auto then = whole.state().params();
  const auto averages = half.state().averages();
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].trained) {
      // The same gradients from another program: Adam may divide by tiny values, and the first
      // update has the size of the learning rate for any gradient.
      EXPECT_LE(largest_difference(now[i]->to_host(), then[i]->to_host()), 2e-5) << specs[i].name;
      EXPECT_NE(now[i]->to_host().bytes, start[i].to_host().bytes) << specs[i].name;
    } else {
      EXPECT_EQ(now[i]->to_host().bytes, start[i].to_host().bytes) << specs[i].name;
      EXPECT_EQ(averages[i], now[i]) << "has no average of its own";
    }
  }
}

TEST_F(Frozen, IsNotDifferentiatedNorDonated) {
  const std::vector<nn::ParamSpec> specs = half_frozen();
  const Trainer half = trainer(client_, specs, {});
  const Trainer whole = trainer(client_, tiny::specs(), {});

  const StepGraph step =
      build_step(specs, network_model(tiny::network(), tiny::options()), tiny::shapes(2), kOptions);
  const auto first = static_cast<int64_t>(step.state.frozen.size());
  EXPECT_EQ(step.donate.size(), step.state.changed());
  EXPECT_EQ(step.donate.begin()->first, first);
  EXPECT_EQ(step.gradient_names.size(), layer_names(trained_specs(specs)).size());
  const auto flops = [](const Trainer& of) {
    return std::get<float>(of.report().cost.at("flops"));
  };
  EXPECT_LT(flops(half), 0.9F * flops(whole));
  int64_t changed = 0;
  step.state.each_changed([&](std::span<const nn::ParamSpec> part) {
    for (const nn::ParamSpec& spec : part) {
      changed += spec.shape.bytes();
    }
  });
  EXPECT_EQ(half.report().memory.aliased, changed);
}

TEST_F(Frozen, IsSavedAndLoadedWithTheNetwork) {
  const io::Scratch scratch;
  const std::vector<nn::ParamSpec> specs = half_frozen();
  Trainer unbroken = trainer(client_, specs, fresh(client_, specs));
  unbroken.run(0, 1e-3, tiny::batch(2, 0));
  save_state(scratch.path(), tiny::network(), unbroken.state(), {.step = 1});
  unbroken.run(1, 1e-3, tiny::batch(2, 1));

  Trainer second = trainer(client_, specs, load_state(scratch.path(), specs, true, client_));
  second.run(1, 1e-3, tiny::batch(2, 1));

  EXPECT_EQ(tiny::bytes_of(second.state()), tiny::bytes_of(unbroken.state()));
  const auto moments = io::SafetensorsFile::open(scratch / "optimizer" / "mu.safetensors");
  EXPECT_EQ(moments.tensors().size(), layer_names(trained_specs(specs)).size());
  EXPECT_EQ(checkpoint_bytes(state_parts(specs, true), {.optimizer = false}),
            host_bytes(second.state(), {.optimizer = false}));
}

TEST_F(Frozen, GradientsOfPartsAreSummedWithoutIt) {
  const std::vector<nn::ParamSpec> specs = half_frozen();
  StepOptions parts = kOptions;
  parts.accumulation = 2;
  Trainer one = trainer(client_, specs, fresh(client_, specs));
  Trainer two = trainer(client_, specs, fresh(client_, specs), parts);

  const StepResult a = one.run(0, 1e-3, tiny::batch(2, 0));
  const StepResult b = two.run(0, 1e-3, tiny::batch(2, 0));

  EXPECT_NEAR(a.loss, b.loss, 1e-5 * a.loss);
  EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-4 * a.gradient_norm);
}

TEST_F(Frozen, NothingTrainedIsRefused) {
  std::vector<nn::ParamSpec> specs = tiny::specs();
  for (nn::ParamSpec& spec : specs) {
    spec.trained = false;
  }
  EXPECT_THAT(
      [&] {
        build_step(specs, network_model(tiny::network(), tiny::options()), tiny::shapes(2),
                   kOptions);
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("none of")));
}

}  // namespace
}  // namespace kinema::training
