// Training over a mesh of CPU devices gives the same result as one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/mesh/batch.h"
#include "kinema/training/consistency.h"
#include "runtime/cpu_mesh.h"
#include "training/tiny.h"

namespace kinema::training {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kBatch = 8;

using runtime::devices_of;
using runtime::mesh_sizes;

Trainer trainer(const runtime::Devices& on, StepOptions step, State state,
                nn::ModelOptions model = tiny::options(), int64_t samples = kBatch) {
  model.place = on.placement();
  step.batch_axes = mesh::batch_axes(on.placement(), mesh::Settings().data_sharding, samples);
  TrainerOptions more;
  more.program.executable_cache = tiny::program_cache();
  if (step.objective.caption_dropout > 0) {
    const Dims& text = tiny::shapes(samples).text.dims;
    more.empty_text = tiny::normal({text[1], text[2]}, "empty", 0);
  }
  return {on,
          tiny::specs(),
          network_model(tiny::network(), model),
          tiny::shapes(samples),
          step,
          std::move(state),
          more};
}

/// The tiny model's parameters on these devices.
State state(const runtime::Devices& on, bool ema = false) {
  std::vector<runtime::Array> params;
  const std::vector<nn::ParamSpec> specs = tiny::specs();
  pjrt::Client client = on.client();
  const std::vector<pjrt::Buffer> whole = tiny::params(client);
  for (size_t i = 0; i < specs.size(); ++i) {
    params.push_back(on.upload(whole[i].to_host(), specs[i].sharding(on.placement())));
  }
  return fresh_state(std::move(params), specs, ema, on);
}

struct Outcome {
  std::vector<StepResult> steps;
  std::vector<HostArray> mu;  // after the first step: (1 - b1) times the gradients
};

Outcome outcome(const runtime::Devices& on, const StepOptions& step,
                const nn::ModelOptions& model = tiny::options(), int64_t samples = kBatch) {
  Trainer of = trainer(on, step, state(on, step.ema.is_on()), model, samples);
  Outcome out;
  for (int64_t i = 0; i < 3; ++i) {
    out.steps.push_back(of.run(i, 1e-3, tiny::batch(samples, i)));
    if (i == 0) {
      for (const runtime::Array& mu : of.state().parts.mu) {
        out.mu.push_back(mu.to_host());
      }
    }
  }
  return out;
}

void expect_same(const Outcome& found, const Outcome& expected) {
  const std::vector<nn::ParamSpec> specs = tiny::specs();
  for (size_t i = 0; i < expected.steps.size(); ++i) {
    // Sums in another order: F32 rounding of means over some thousand terms. Later steps contain
    // the difference of updates, whose sign is noise where a gradient is nearly zero.
    const double limit = i == 0 ? 1e-5 : 1e-3;
    EXPECT_NEAR(found.steps[i].loss, expected.steps[i].loss, limit * expected.steps[i].loss) << i;
    EXPECT_NEAR(found.steps[i].gradient_norm, expected.steps[i].gradient_norm,
                limit * expected.steps[i].gradient_norm)
        << i;
  }
  for (size_t p = 0; p < expected.mu.size(); ++p) {
    const auto x = found.mu[p].as<float>();
    const auto y = expected.mu[p].as<float>();
    // Relative to the largest gradients: small ones lose their low digits to cancellation.
    const double limit = 1e-5 * 0.1 * expected.steps[0].gradient_norm;
    for (size_t j = 0; j < y.size(); ++j) {
      ASSERT_NEAR(x[j], y[j], limit) << specs[p].name << " " << j;
    }
  }
}

class MeshStep : public pjrt::CpuTest {
 protected:
  static const pjrt::Client& client() {
    static const pjrt::Client client = pjrt::cpu_client(8);
    return client;
  }
  static const Outcome& one_device() {
    static const Outcome outcome = training::outcome(client(), {});
    return outcome;
  }
};

struct Layout {
  const char* name;
  int64_t data, fsdp, context, tensor;
};

TEST_F(MeshStep, GivesOneDevicesLossAndGradientsInEveryLayout) {
  for (const Layout& each :
       {Layout{"data", 8, 1, 1, 1}, Layout{"fsdp", 1, 8, 1, 1}, Layout{"context", 1, 1, 8, 1},
        Layout{"tensor", 4, 1, 1, 2}, Layout{"all", 1, 2, 2, 2}}) {
    SCOPED_TRACE(each.name);
    const auto on =
        devices_of(client(), mesh_sizes(each.data, each.fsdp, each.context, each.tensor));
    expect_same(outcome(on, {}), one_device());
  }
}

TEST_F(MeshStep, DrawsTheSameDropoutAndCaptionsWhateverTheLayout) {
  // Together with accumulation, recomputation and unrolled blocks: every draw of a step is a
  // function of only its position.
  StepOptions step{.accumulation = 2, .ema = {.decay = 0.9}};
  step.objective.stratified = true;
  step.objective.caption_dropout = 0.5;
  nn::ModelOptions model = tiny::options();
  model.dropout = 0.3;
  model.remat.kind = RematPolicy::Kind::FULL;

  expect_same(outcome(devices_of(client(), mesh_sizes(1, 2, 2, 2)), step, model),
              outcome(client(), step, model));
}

TEST_F(MeshStep, TrainsADiffusionWithPartsOfTheBatch) {
  StepOptions step;
  step.objective.diffusion = DiffusionObjective{
      .snr_gamma = 5.0,
      .noise_offset = 0.1,
      .bias = {.strategy = schedulers::TimestepBias::Strategy::LATER, .multiplier = 2.0}};
  const Outcome expected = outcome(client(), step);
  for (const auto& sizes : {mesh_sizes(8, 1, 1, 1), mesh_sizes(1, 2, 2, 2)}) {
    expect_same(outcome(devices_of(client(), sizes), step), expected);
  }
}

TEST_F(MeshStep, GivesTheSameWithEveryKindOfAttention) {
  for (const nn::AttentionKind kind : {nn::AttentionKind::RING, nn::AttentionKind::ULYSSES}) {
    SCOPED_TRACE(static_cast<int>(kind));
    nn::ModelOptions model = tiny::options();
    model.attention.kind = kind;
    expect_same(outcome(devices_of(client(), mesh_sizes(1, 2, 2, 1)), {}, model), one_device());
  }
}

// MaxDiffusion's own layout for Wan: one sample, with its tokens sharded over fsdp.
TEST_F(MeshStep, WithFewerSamplesThanFsdpGivesOneDevicesLossAndThatOfContext) {
  const auto over = [](int64_t data, int64_t fsdp, int64_t context, const char* attention,
                       int64_t samples) {
    const runtime::Devices asked =
        devices_of(client(), mesh_sizes(data, fsdp, context, 1), attention);
    const runtime::Devices on(client(), asked.placement().for_samples(samples));
    nn::ModelOptions model = tiny::options();
    model.attention.kind = nn::attention_kind(attention);
    model.attention.ulysses_shards = 2;
    return outcome(on, {}, model, samples);
  };
  const Outcome one = outcome(client(), {}, tiny::options(), 1);
  for (const char* attention : {"flash", "ring", "ulysses", "ulysses_ring"}) {
    SCOPED_TRACE(attention);
    const Outcome fsdp = over(1, 4, 1, attention, 1);
    expect_same(fsdp, one);
    // The same tokens on the same devices, so the first loss is summed in the same order. Gradients
    // are not: fsdp also shards what their norm is summed over.
    const Outcome context = over(1, 1, 4, attention, 1);
    EXPECT_EQ(fsdp.steps[0].loss, context.steps[0].loss);
    expect_same(fsdp, context);
  }
  expect_same(over(1, 2, 2, "flash", 1), one);
  expect_same(over(1, 2, 2, "ring", 1), one);
  expect_same(over(1, 3, 1, "ring", 1), one);  // 8 tokens over 3 devices
  expect_same(over(2, 4, 1, "flash", 2), outcome(client(), {}, tiny::options(), 2));
}

TEST_F(MeshStep, SplitsASequenceThatDoesNotDivide) {
  // 8 tokens over 3 devices: the compiler pads.
  expect_same(outcome(devices_of(client(), mesh_sizes(1, 1, 3, 1)), {}), one_device());
}

TEST_F(MeshStep, HoldsLessOnEachDeviceTheLongerTheFsdpAxis) {
  const auto held = [](const State& arrays) {
    int64_t bytes = 0;
    for (const runtime::Array* array : arrays.all()) {
      bytes += array->bytes_per_device();
      // The shard on a device really has that size.
      EXPECT_EQ(array->shards()[0].shape().bytes(), array->bytes_per_device());
    }
    return bytes;
  };
  const int64_t one = held(state(client()));
  const int64_t two = held(state(devices_of(client(), mesh_sizes(1, 2, 1, 1))));
  const int64_t eight = held(state(devices_of(client(), mesh_sizes(1, 8, 1, 1))));
  // Biases, norms and modulation are replicated: 3 of 10 bytes in the tiny model.
  EXPECT_LT(two, 0.7 * one);
  EXPECT_LT(eight, 0.45 * one);
}

TEST_F(MeshStep, GoesOnFromACheckpointOfOtherDevices) {
  const io::Scratch scratch;
  {
    Trainer first = trainer(devices_of(client(), mesh_sizes(1, 2, 1, 2)), {},
                            state(devices_of(client(), mesh_sizes(1, 2, 1, 2))));
    for (int64_t i = 0; i < 2; ++i) {
      first.run(i, 1e-3, tiny::batch(kBatch, i));
    }
    save_state(scratch / "four", tiny::network(), first.state(), {.step = 2});
  }

  const StepResult& expected = one_device().steps[2];
  for (const auto& next : {mesh_sizes(2, 1, 1, 1), mesh_sizes(1, 2, 2, 2)}) {
    const runtime::Devices on = devices_of(client(), next);
    SCOPED_TRACE(on.count());
    Trainer second = trainer(on, {}, load_state(scratch / "four", tiny::specs(), false, on));
    const StepResult found = second.run(2, 1e-3, tiny::batch(kBatch, 2));
    // As in expect_same for later steps.
    EXPECT_NEAR(found.loss, expected.loss, 1e-3 * expected.loss);
    EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, 1e-3 * expected.gradient_norm);
    EXPECT_EQ(second.state().parts.counts->to_host().as<int32_t>()[0], 3);
  }
}

TEST_F(MeshStep, ReadsAndWritesTheSameCheckpointOnAnyDevices) {
  const io::Scratch scratch;
  const runtime::Devices four = devices_of(client(), mesh_sizes(1, 2, 1, 2));
  const runtime::Devices eight = devices_of(client(), mesh_sizes(2, 2, 2, 1));
  const std::vector<nn::ParamSpec> specs = tiny::specs();
  const State start = state(four, /*ema=*/true);
  save_state(scratch / "a", tiny::network(), {specs, start}, {.step = 0});

  const State moved = load_state(scratch / "a", specs, true, eight);
  save_state(scratch / "b", tiny::network(), {specs, moved}, {.step = 0});
  const State back = load_state(scratch / "b", specs, true, client());

  EXPECT_EQ(moved.trained[0].shards().size(), 8U);
  EXPECT_EQ(tiny::bytes_of({specs, back}), tiny::bytes_of({specs, start}));
}

TEST_F(MeshStep, FindsWhereAStepIsNotFinite) {
  const runtime::Devices on = devices_of(client(), mesh_sizes(1, 2, 2, 2));
  Trainer of = trainer(on, {}, state(on));
  data::Batch bad = tiny::batch(kBatch, 0);
  bad.latents.as<float>()[3] = std::numeric_limits<float>::infinity();
  nn::ModelOptions model = tiny::options();
  model.place = on.placement();

  EXPECT_FALSE(of.run(0, 1e-2, bad).finite);
  EXPECT_EQ(of.find_nonfinite(0, bad, tapped_network_model(tiny::network(), model)),
            "the batch's latents");
  EXPECT_THAT(of.find_operation(0, 1e-2, bad, network_model(tiny::network(), model)),
              testing::StartsWith("latents, whose f32["));
}

/// The array with one bit flipped in one device's shard.
runtime::Array with_fault(const runtime::Devices& on, const runtime::Array& array, size_t device) {
  std::vector<pjrt::Buffer> shards;
  for (size_t d = 0; d < on.count(); ++d) {
    HostArray part = array.shards()[d].to_host();
    if (d == device) {
      part.bytes[2] ^= std::byte{1};  // in the mantissa, and high enough to survive an update
    }
    shards.push_back(on.client().to_device(part, on[d]));
  }
  return {array.shape(), {array.blocks().begin(), array.blocks().end()}, std::move(shards)};
}

TEST_F(MeshStep, DevicesThatDisagreeAreNamedBeforeACheckpoint) {
  const runtime::Devices on = devices_of(client(), mesh_sizes(4, 1, 1, 1));
  State faulty = state(on);
  faulty.trained[1] = with_fault(on, faulty.trained[1], 2);
  Trainer of = trainer(on, {}, std::move(faulty));
  std::vector<int64_t> saves;
  LoopParts parts;
  parts.next_batch = [] { return tiny::batch(kBatch, 0); };
  parts.learning_rate = [](int64_t) { return 1e-3; };
  parts.run_step = [&](int64_t step, double rate, const data::Batch& batch) {
    return of.run(step, rate, batch);
  };
  parts.check_replicas = [&] { of.check_replicas(); };
  parts.save = [&](int64_t step, bool) { saves.push_back(step); };
  parts.saved = [](bool) {};
  parts.report = [](const StepRecord&) {};
  parts.stop_requested = [] { return false; };

  // The loss is a sum over all devices, and hides the difference.
  EXPECT_THAT(
      [&] {
        train_loop({.max_steps = 4, .checkpoint_every = 2, .check_replicas_every = 100}, parts);
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("device 2 (data=2) has another `param."),
                                 HasSubstr("than the 3 others"))));
  EXPECT_TRUE(saves.empty());
}

TEST_F(MeshStep, DevicesThatAgreeAreAccepted) {
  const runtime::Devices on = devices_of(client(), mesh_sizes(2, 2, 1, 2));
  Trainer of = trainer(on, {}, state(on));
  of.check_replicas();
  of.run(0, 1e-3, tiny::batch(kBatch, 0));
  of.check_replicas();
}

TEST_F(MeshStep, ALossThatDiffersNamesTheDeviceAndBothValues) {
  const runtime::Devices on = devices_of(client(), mesh_sizes(4, 1, 1, 1));
  const auto whole = [&](std::vector<float> values) {
    return on.upload(HostArray::f32({static_cast<int64_t>(values.size())}, values));
  };
  const std::vector<std::string> names = {"a", "b"};
  const runtime::ReplicaCheck check(on, {}, {});
  const runtime::Array metrics = whole({0.5F, 2, 1, 1});
  const runtime::Array squares = whole({1, 2});
  const auto agree = [&](const runtime::Array& m, const runtime::Array& s) {
    check_consistency({.devices = on,
                       .metrics = m,
                       .squares = s,
                       .gradient_names = names,
                       .check = check,
                       .state = {},
                       .ports = {}});
  };
  agree(metrics, squares);
  EXPECT_THAT([&] { agree(with_fault(on, metrics, 3), squares); },
              ThrowsMessage<Error>(AllOf(HasSubstr("device 3 (data=3)"),
                                         HasSubstr("loss and gradient norm (0.50390625 and 2, "
                                                   "not 0.5 and 2)"))));
  EXPECT_THAT([&] { agree(metrics, with_fault(on, squares, 1)); },
              ThrowsMessage<Error>(HasSubstr("device 1 (data=1) has another gradient of a")));
}

}  // namespace
}  // namespace kinema::training
