#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "training/tiny.h"

namespace kinema::training {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Step = pjrt::CpuTest;

/// Largest difference between two states' parameters.
double distance(const StateView& a, const StateView& b) {
  double largest = 0;
  for (size_t i = 0; i < a.specs.size(); ++i) {
    const HostArray x = a.params()[i]->to_host();
    const HostArray y = b.params()[i]->to_host();
    for (size_t j = 0; j < x.as<float>().size(); ++j) {
      largest = std::max<double>(largest, std::abs(x.as<float>()[j] - y.as<float>()[j]));
    }
  }
  return largest;
}

TEST_F(Step, LowersTheLossOnOneBatch) {
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = tiny::fresh_trainer(client, 4, {});

  const StepResult first = trainer.run(0, 1e-2, tiny::batch(4, 0));
  StepResult last;
  for (int i = 0; i < 20; ++i) {
    last = trainer.run(0, 1e-2, tiny::batch(4, 0));
  }

  EXPECT_TRUE(first.finite);
  EXPECT_GT(first.gradient_norm, 0);
  EXPECT_GT(first.max_abs_gradient, 0);
  EXPECT_LT(first.max_abs_gradient, first.gradient_norm);
  EXPECT_LT(last.loss, 0.8 * first.loss);
  EXPECT_EQ(trainer.state().parts.counts->to_host().as<int32_t>()[0], 21);
}

/// A batch of one more latent frame than tiny::batch has.
data::Batch longer_batch(int64_t size, int64_t step) {
  data::Batch batch = tiny::batch(size, step);
  batch.latents = tiny::normal({size, 4, 3, 2, 2}, "longer", step);
  return batch;
}

TEST_F(Step, WorksOnOneStateWithBatchesOfSeveralShapes) {
  pjrt::Client client = pjrt::cpu_client();
  const Model model = network_model(tiny::network(), tiny::options());
  BatchShapes longer = tiny::shapes(2);
  longer.latents.dims[2] = 3;
  Trainer mixed = tiny::fresh_trainer(client, 2, {});
  EXPECT_THAT([&] { mixed.run(0, 1e-3, longer_batch(2, 0)); },
              ThrowsMessage<Error>(HasSubstr("buckets")));
  mixed.add_shapes(model, longer);
  ASSERT_EQ(mixed.shapes(), 2U);
  EXPECT_EQ(mixed.shape_of(longer_batch(2, 0)), 1U);
  EXPECT_EQ(mixed.shape_of(tiny::batch(2, 0)), 0U);

  // One step of each; then the same two steps by trainers that know only one shape.
  const StepResult first = mixed.run(0, 1e-3, longer_batch(2, 0));
  const StepResult second = mixed.run(1, 1e-3, tiny::batch(2, 1));
  TrainerOptions options;
  options.program.executable_cache = tiny::program_cache();
  Trainer alone(client, tiny::specs(), model, longer, {},
                fresh_state(tiny::params(client), tiny::specs(), false, client), options);
  EXPECT_EQ(alone.run(0, 1e-3, longer_batch(2, 0)).loss, first.loss);
  Trainer next = tiny::trainer(client, 2, {}, alone.state().parts.map([&](const auto& array) {
    return runtime::Devices(client).upload(array.to_host());
  }));
  EXPECT_EQ(next.run(1, 1e-3, tiny::batch(2, 1)).loss, second.loss);
  EXPECT_EQ(tiny::bytes_of(next.state()), tiny::bytes_of(mixed.state()));
}

TEST_F(Step, ChangesNothingAtRateZero) {
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = tiny::fresh_trainer(client, 2, {});
  const auto before = tiny::bytes_of(trainer.state());

  trainer.run(0, 0.0, tiny::batch(2, 0));

  const auto after = tiny::bytes_of(trainer.state());
  for (size_t i = 0; i < tiny::specs().size(); ++i) {
    EXPECT_EQ(before[i], after[i]);
  }
}

TEST_F(Step, AccumulatesToTheSameUpdateAsOneBatch) {
  pjrt::Client client = pjrt::cpu_client();
  Trainer whole = tiny::fresh_trainer(client, 4, {});
  Trainer parts = tiny::fresh_trainer(client, 4, {.accumulation = 2});

  const StepResult a = whole.run(3, 1e-3, tiny::batch(4, 0));
  const StepResult b = parts.run(3, 1e-3, tiny::batch(4, 0));

  // The sums differ only in their order: F32 rounding of a mean of a few hundred terms.
  EXPECT_NEAR(a.loss, b.loss, 1e-5 * a.loss);
  EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-5 * a.gradient_norm);
  const HostArray mu_a = whole.state().parts.mu[0].to_host();
  const HostArray mu_b = parts.state().parts.mu[0].to_host();
  for (size_t i = 0; i < mu_a.as<float>().size(); ++i) {
    EXPECT_NEAR(mu_a.as<float>()[i], mu_b.as<float>()[i], 1e-6 * a.gradient_norm);
  }
  // Adam's first update is the rate times a sign: equal unless a gradient is rounding noise.
  EXPECT_LE(distance(whole.state(), parts.state()), 2.1e-3);
}

TEST_F(Step, RefusesABatchThatDoesNotDivide) {
  EXPECT_THAT(
      [] {
        build_step(tiny::specs(), network_model(tiny::network(), tiny::options()), tiny::shapes(3),
                   {.accumulation = 2});
      },
      ThrowsMessage<Error>(HasSubstr("a batch of 3 does not divide into 2 parts")));
}

TEST_F(Step, LeavesTheStateAloneAndNamesTheBlockWhenAWeightIsNaN) {
  pjrt::Client client = pjrt::cpu_client();
  std::vector<pjrt::Buffer> params = tiny::params(client);
  const std::vector<nn::ParamSpec> specs = tiny::specs();
  const auto found = std::find_if(specs.begin(), specs.end(), [](const nn::ParamSpec& spec) {
    return spec.name == "blocks.{}.ffn.net.0.proj.weight";
  });
  ASSERT_NE(found, specs.end());
  const auto index = static_cast<size_t>(found - specs.begin());
  HostArray poisoned = params[index].to_host();
  poisoned.as<float>()[poisoned.as<float>().size() - 1] =
      std::numeric_limits<float>::quiet_NaN();  // in the second and last layer
  params[index] = client.to_device(poisoned);
  const StepOptions options{.ema = {.decay = 0.9}};
  Trainer trainer =
      tiny::trainer(client, 2, options, fresh_state(std::move(params), specs, true, client));
  const auto before = tiny::bytes_of(trainer.state());

  const StepResult result = trainer.run(0, 1e-2, tiny::batch(2, 0));
  const std::string where = trainer.find_nonfinite(
      0, tiny::batch(2, 0), tapped_network_model(tiny::network(), tiny::options()));

  EXPECT_FALSE(result.finite);
  EXPECT_EQ(before, tiny::bytes_of(trainer.state()));
  EXPECT_EQ(where, "blocks.1.ffn (parameter blocks.1.ffn.net.0.proj.weight is not finite)");
}

TEST_F(Step, NamesTheBatchWhenItsLatentsAreNotFinite) {
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = tiny::fresh_trainer(client, 2, {});
  data::Batch bad = tiny::batch(2, 0);
  bad.latents.as<float>()[3] = std::numeric_limits<float>::infinity();

  EXPECT_FALSE(trainer.run(0, 1e-2, bad).finite);
  EXPECT_EQ(trainer.find_nonfinite(0, bad, tapped_network_model(tiny::network(), tiny::options())),
            "the batch's latents");
  EXPECT_TRUE(trainer.run(1, 1e-2, tiny::batch(2, 1)).finite);
}

TEST_F(Step, KeepsAnAverageThatFollowsTheParameters) {
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = tiny::fresh_trainer(client, 2, {.ema = {.decay = 0.9}});
  const HostArray start = trainer.state().params()[0]->to_host();

  trainer.run(0, 1e-2, tiny::batch(2, 0));

  const double d = 2.0 / 11.0;  // (1 + t) / (10 + t) for t = 1
  const HostArray now = trainer.state().params()[0]->to_host();
  const HostArray average = trainer.state().averages()[0]->to_host();
  for (size_t i = 0; i < now.as<float>().size(); ++i) {
    EXPECT_NEAR(average.as<float>()[i], d * start.as<float>()[i] + (1 - d) * now.as<float>()[i],
                1e-6);
  }
}

TEST_F(Step, KeepsF32MastersWhenTheNetworkWorksInBf16) {
  pjrt::Client client = pjrt::cpu_client();
  nn::ModelOptions narrow = tiny::options();
  narrow.weights_dtype = DType::BF16;
  narrow.activations_dtype = DType::BF16;
  const std::vector<nn::ParamSpec> specs = wan::parameters(tiny::config(), narrow);
  Trainer trainer(client, specs, network_model(tiny::network(), narrow), tiny::shapes(2), {},
                  fresh_state(tiny::params(client), specs, false, client), {});
  const auto weight = static_cast<size_t>(
      std::find_if(specs.begin(), specs.end(),
                   [](const auto& s) { return s.name == "patch_embedding.weight"; }) -
      specs.begin());
  const HostArray before = trainer.state().params()[weight]->to_host();

  // Far below half a bf16 step of weights around 0.2: bf16 parameters would not change at all.
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(trainer.run(step, 1e-6, tiny::batch(2, 0)).finite);
  }

  const HostArray after = trainer.state().params()[weight]->to_host();
  EXPECT_EQ(after.shape.dtype, DType::F32);
  size_t moved = 0;
  for (size_t i = 0; i < after.as<float>().size(); ++i) {
    const double change = std::abs(after.as<float>()[i] - before.as<float>()[i]);
    moved += change > 1e-6 && change < 4e-6 ? 1 : 0;
  }
  EXPECT_GT(moved, after.as<float>().size() / 2);
}

TEST_F(Step, KeepsItsStateInTheWeightsDtypesWhereAsked) {
  pjrt::Client client = pjrt::cpu_client();
  nn::ModelOptions narrow = tiny::options();
  narrow.weights_dtype = DType::BF16;
  narrow.activations_dtype = DType::BF16;
  const std::vector<nn::ParamSpec> specs = wan::parameters(tiny::config(), narrow);
  // F32 parameters with BF16 values: both runs start from the same numbers.
  std::vector<pjrt::Buffer> wide;
  std::vector<pjrt::Buffer> half;
  for (const pjrt::Buffer& param : tiny::params(client)) {
    const DType dtype = specs[wide.size()].shape.dtype;
    const HostArray rounded = convert(param.to_host(), dtype);
    wide.push_back(client.to_device(convert(rounded, DType::F32)));
    half.push_back(client.to_device(rounded));
  }
  Trainer masters(client, specs, network_model(tiny::network(), narrow), tiny::shapes(2), {},
                  fresh_state(std::move(wide), specs, false, client), {});
  Trainer trainer(client, specs, network_model(tiny::network(), narrow), tiny::shapes(2),
                  {.state = StateDType::WEIGHTS, .ema = {.decay = 0.9}},
                  fresh_state(std::move(half), specs, true, client), {});

  const StepResult a = masters.run(0, 1e-2, tiny::batch(2, 0));
  const StepResult b = trainer.run(0, 1e-2, tiny::batch(2, 0));

  // The same network with the same weights; only the storage of the new state differs.
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  for (size_t i = 0; i < specs.size(); ++i) {
    const DType dtype = specs[i].shape.dtype;
    EXPECT_EQ(trainer.state().averages()[i]->shape().dtype, DType::F32);
    for (const auto& [kept, master] :
         {std::pair{trainer.state().params(), masters.state().params()},
          {pointers_to<runtime::Array>(trainer.state().parts.mu),
           pointers_to<runtime::Array>(masters.state().parts.mu)},
          {pointers_to<runtime::Array>(trainer.state().parts.nu),
           pointers_to<runtime::Array>(masters.state().parts.nu)}}) {
      const HostArray found = kept[i]->to_host();
      const HostArray wanted = convert(master[i]->to_host(), dtype);
      ASSERT_EQ(found.shape.dtype, dtype);
      // The update runs in another program: values of about 1 and updates of about the rate differ
      // by F32 rounding, which changes a BF16 rounding below 1 by at most one step, 2^-8.
      EXPECT_LE(largest_difference(convert(found, DType::F32), convert(wanted, DType::F32)),
                dtype == DType::BF16 ? 0x1p-8 : 2e-6)
          << specs[i].name;
    }
  }
}

TEST_F(Step, SavesAndLoadsAStateInTheWeightsDtypes) {
  pjrt::Client client = pjrt::cpu_client();
  nn::ModelOptions narrow = tiny::options();
  narrow.weights_dtype = DType::BF16;
  const std::vector<nn::ParamSpec> specs = wan::parameters(tiny::config(), narrow);
  std::vector<pjrt::Buffer> half;
  for (const pjrt::Buffer& param : tiny::params(client)) {
    half.push_back(client.to_device(convert(param.to_host(), specs[half.size()].shape.dtype)));
  }
  Trainer trainer(client, specs, network_model(tiny::network(), narrow), tiny::shapes(2),
                  {.state = StateDType::WEIGHTS},
                  fresh_state(std::move(half), specs, false, client), {});
  trainer.run(0, 1e-2, tiny::batch(2, 0));
  const io::Scratch scratch;
  save_state(scratch.path(), tiny::network(), trainer.state(), {.step = 1});

  const State same =
      load_state(scratch.path(), state_specs(specs, StateDType::WEIGHTS), false, client);
  const State wide = load_state(scratch.path(), state_specs(specs), false, client);

  for (size_t i = 0; i < same.size(); ++i) {
    const HostArray kept = trainer.state().parts.all()[i]->to_host();
    EXPECT_EQ(same.all()[i]->to_host().bytes, kept.bytes) << i;
    const bool is_count = i + 1 == same.size();
    EXPECT_EQ(wide.all()[i]->to_host().bytes, (is_count ? kept : convert(kept, DType::F32)).bytes)
        << i;
  }
}

TEST_F(Step, CutsALargerBatchToItsFirstSamples) {
  pjrt::Client client = pjrt::cpu_client();
  Trainer a = tiny::fresh_trainer(client, 2, {});
  Trainer b = tiny::fresh_trainer(client, 2, {});
  data::Batch three = tiny::batch(3, 0);
  data::Batch two;
  two.latents = HostArray(tiny::shapes(2).latents);
  two.encoder_hidden_states = HostArray(tiny::shapes(2).text);
  std::copy_n(three.latents.bytes.begin(), two.latents.bytes.size(), two.latents.bytes.begin());
  std::copy_n(three.encoder_hidden_states.bytes.begin(), two.encoder_hidden_states.bytes.size(),
              two.encoder_hidden_states.bytes.begin());

  EXPECT_EQ(a.run(0, 1e-3, three).loss, b.run(0, 1e-3, two).loss);
}

}  // namespace
}  // namespace kinema::training
