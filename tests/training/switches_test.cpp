// Switches of a training run, each tested by its effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kinema/core/error.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/runtime/pieces.h"
#include "training/tiny.h"

namespace kinema::training {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing::ThrowsMessage;

class Switches : public pjrt::CpuTest {
 protected:
  static pjrt::Client& client() {
    static pjrt::Client client = pjrt::cpu_client(1);
    return client;
  }

  /// The state with one layer of a stacked parameter set to a value.
  static State state_with(const std::string& name, int64_t layer, float value) {
    std::vector<pjrt::Buffer> params = tiny::params(client());
    const std::vector<nn::ParamSpec> specs = tiny::specs();
    bool found = false;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].name != name) {
        continue;
      }
      found = true;
      HostArray array = params[i].to_host();
      const std::span<float> all = array.as<float>();
      const size_t each = all.size() / static_cast<size_t>(specs[i].layers);
      for (float& x : all.subspan(static_cast<size_t>(layer) * each, each)) {
        x = value;
      }
      params[i] = client().to_device(array);
    }
    EXPECT_TRUE(found) << name;
    return fresh_state(runtime::to_arrays(std::move(params)), specs, false, client());
  }

  static std::string first_bad(const std::string& name, int64_t layer, float value,
                               const StepOptions& step = {}) {
    Trainer trainer = tiny::trainer(client(), 4, step, state_with(name, layer, value));
    EXPECT_FALSE(trainer.run(0, 1e-3, tiny::batch(4, 0)).finite);
    return trainer.find_operation(0, 1e-3, tiny::batch(4, 0),
                                  network_model(tiny::network(), tiny::options()));
  }
};

TEST_F(Switches, DebugNansNamesTheFirstOperationInTheModel) {
  constexpr float kNearlyInfinite = 3e38F;  // sums of products with it overflow
  EXPECT_THAT(first_bad("blocks.{}.ffn.net.2.weight", 1, kNearlyInfinite),
              AllOf(StartsWith("blocks.1/ffn"), HasSubstr("dot_general, whose")));
  EXPECT_THAT(first_bad("blocks.{}.attn2.to_v.weight", 0, kNearlyInfinite),
              AllOf(StartsWith("blocks.0/attn2/dot_general, whose")));
}

TEST_F(Switches, DebugNansNamesAParameterThatIsNotFinite) {
  EXPECT_THAT(first_bad("blocks.{}.attn1.to_q.bias", 1, std::nanf("")),
              AllOf(StartsWith("param.blocks.{}.attn1.to_q.bias"), HasSubstr("is not finite")));
}

TEST_F(Switches, DebugNansLooksIntoThePartsOfAnAccumulatedBatch) {
  StepOptions step;
  step.accumulation = 2;
  EXPECT_THAT(first_bad("blocks.{}.ffn.net.2.weight", 1, 3e38F, step),
              AllOf(StartsWith("blocks.1/ffn"), HasSubstr("(step 0 of a loop of 2)")));
}

TEST_F(Switches, DebugNansFindsNothingInAFiniteStep) {
  Trainer trainer = tiny::fresh_trainer(client(), 4, {});
  EXPECT_EQ(trainer.find_operation(0, 1e-3, tiny::batch(4, 0),
                                   network_model(tiny::network(), tiny::options())),
            "");
}

/// Three steps under a transfer guard; `report` may copy something itself.
void guarded_steps(Trainer& trainer, const std::function<void()>& report) {
  LoopParts parts;
  parts.next_batch = [] { return tiny::batch(4, 0); };
  parts.learning_rate = [](int64_t) { return 1e-3; };
  parts.run_step = [&](int64_t step, double rate, const data::Batch& batch) {
    return trainer.run(step, rate, batch);
  };
  parts.saved = [](bool) {};
  parts.report = [&](const StepRecord&) { report(); };
  parts.stop_requested = [] { return false; };
  const pjrt::TransferGuard guard("the training steps");
  train_loop({.max_steps = 3, .final_checkpoint = false}, parts);
}

TEST_F(Switches, TransferGuardLetsABatchInAndItsMetricsOut) {
  Trainer trainer = tiny::fresh_trainer(client(), 4, {});
  const pjrt::TransferCounts before = pjrt::transfers();
  guarded_steps(trainer, [] {});
  const pjrt::TransferCounts after = pjrt::transfers();
  // Each step: its number, the learning rate, latents and text in; four numbers out.
  EXPECT_EQ(after.to_device - before.to_device, 3 * 4);
  const int64_t batch = tiny::shapes(4).latents.bytes() + tiny::shapes(4).text.bytes();
  EXPECT_EQ(after.to_device_bytes - before.to_device_bytes, 3 * (batch + 8));
  EXPECT_EQ(after.to_host - before.to_host, 3);
  EXPECT_EQ(after.to_host_bytes - before.to_host_bytes, 3 * 16);
}

TEST_F(Switches, TransferGuardRefusesEveryOtherCopyInTheSteps) {
  Trainer trainer = tiny::fresh_trainer(client(), 4, {});
  EXPECT_THAT([&] { guarded_steps(trainer, [&] { trainer.state().parts.counts->to_host(); }); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[transfer_guard] s32[3] (12 bytes)"),
                                         HasSubstr("to the host in the training steps"))));
  EXPECT_THAT(
      [&] {
        guarded_steps(trainer, [&] { client().to_device(HostArray(Shape{DType::F32, {2}})); });
      },
      ThrowsMessage<Error>(HasSubstr("to the device in the training steps")));
}

struct Outcome {
  std::vector<double> losses;
  std::vector<std::string> pieces;
  HostArray param;
};

Outcome steps(pjrt::Client& client, bool jit, const StepOptions& step,
              const nn::ModelOptions& model) {
  TrainerOptions options;
  options.program.jit = jit;
  options.program.executable_cache = tiny::program_cache();
  std::vector<nn::ParamSpec> specs = wan::parameters(tiny::config(), model);
  std::vector<pjrt::Buffer> params;
  for (const nn::ParamSpec& spec : specs) {
    HostArray array = tiny::normal(spec.shape.dims, spec.name.c_str(), 0);
    for (float& x : array.as<float>()) {
      x = 0.2F * x + (spec.name.ends_with("norm2.weight") ? 1.0F : 0.0F);
    }
    params.push_back(client.to_device(array));
  }
  Trainer trainer(client, specs, network_model(tiny::network(), model), tiny::shapes(4), step,
                  fresh_state(runtime::to_arrays(std::move(params)), specs, false, client),
                  options);
  Outcome out;
  for (int64_t i = 0; i < 3; ++i) {
    out.losses.push_back(trainer.run(i, 1e-3, tiny::batch(4, i)).loss);
  }
  out.param = trainer.state().params()[0]->to_host();
  if (const runtime::Pieces* pieces = trainer.pieces()) {
    out.pieces = pieces->names();
  }
  return out;
}

void expect_same(const Outcome& found, const Outcome& expected) {
  for (size_t i = 0; i < 3; ++i) {
    // The same operations with other fusions: in the first step F32 rounding of sums over some
    // hundred terms; later ones contain the difference of updates, whose sign is noise where a
    // gradient is nearly zero.
    const double limit = i == 0 ? 1e-5 : 1e-3;
    EXPECT_NEAR(found.losses[i], expected.losses[i], limit * expected.losses[i]) << i;
  }
}

TEST_F(Switches, WithoutJitEachStepOfTheBlocksLoopIsAProgramOfItsOwn) {
  const Outcome whole = steps(client(), true, {}, tiny::options());
  const Outcome pieces = steps(client(), false, {}, tiny::options());
  expect_same(pieces, whole);
  EXPECT_TRUE(whole.pieces.empty());
  EXPECT_THAT(pieces.pieces, Contains(HasSubstr(".blocks")));
  EXPECT_THAT(pieces.pieces, Contains(HasSubstr(".grad-blocks")));
}

TEST_F(Switches, WithoutJitEachBlockOfAnUnrolledModelIsAProgramOfItsOwn) {
  nn::ModelOptions model = tiny::options();
  model.scan_layers = false;
  model.remat = {.kind = RematPolicy::Kind::FULL};
  const Outcome pieces = steps(client(), false, {}, model);
  expect_same(pieces, steps(client(), true, {}, model));
  for (const char* block : {".blocks.0", ".blocks.1", ".grad-blocks.0", ".grad-blocks.1"}) {
    EXPECT_THAT(pieces.pieces, Contains(HasSubstr(block)));
  }
}

TEST_F(Switches, WithoutJitPartsOfABatchRunOneAfterTheOther) {
  StepOptions step;
  step.accumulation = 2;
  expect_same(steps(client(), false, step, tiny::options()),
              steps(client(), true, step, tiny::options()));
}

}  // namespace
}  // namespace kinema::training
