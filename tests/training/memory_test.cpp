#include "kinema/training/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/runtime/device_memory.h"
#include "pjrt/cpu_plugin.h"
#include "tiny.h"

namespace kinema::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Trainer without_state(pjrt::Client& client, const StepOptions& step = {}) {
  return tiny::trainer(client, 2, step, {});
}

TEST(TrainingMemory, TheStateIsKnownBeforeItIsThere) {
  pjrt::Client client = pjrt::cpu_client();
  for (const StepOptions& step : {StepOptions{}, StepOptions{.ema = {.decay = 0.9}}}) {
    const Trainer trainer = without_state(client, step);
    const int64_t expected =
        state_bytes(state_parts(state_specs(tiny::specs(), step.state), step.ema.is_on()), {});

    EXPECT_EQ(trainer.state_bytes(), expected);
    int64_t really = 0;
    const Trainer full = tiny::fresh_trainer(client, 2, step);
    for (const runtime::Array* array : full.state().parts.all()) {
      really += array->bytes_per_device();
    }
    EXPECT_EQ(trainer.state_bytes(), really);
  }
}

TEST(TrainingMemory, TheStepTakesItsTemporariesBesideTheState) {
  pjrt::Client client = pjrt::cpu_client();
  const Trainer trainer = without_state(client);
  const runtime::Devices devices(client);

  const MemoryUse use = memory_use(trainer, devices, 4);

  EXPECT_EQ(use.state, trainer.state_bytes());
  EXPECT_GE(use.step, trainer.report().memory.temporary);
  EXPECT_GT(use.held, 0);
  const BatchShapes& batch = trainer.batch();
  EXPECT_EQ(use.data, 5 * (batch.latents.bytes() + batch.text.bytes()));
  EXPECT_EQ(use.predicted(), std::max(use.before, use.held + use.state + use.step + use.data));
}

TEST(TrainingMemory, AStateOfAnotherSizeIsRefused) {
  pjrt::Client client = pjrt::cpu_client();
  Trainer trainer = without_state(client);

  EXPECT_THAT([&] { trainer.set_state({}); },
              ThrowsMessage<Error>(HasSubstr("a state of 0 buffers")));
}

TEST(TrainingMemory, WhatDoesNotFitIsRefusedWithTheFirstChangeThatDoes) {
  pjrt::Client client = pjrt::cpu_client();
  const runtime::Devices devices(client);
  constexpr int64_t kTooMuch = int64_t{1} << 50;
  int asked = 0;
  const auto taking = [&](int64_t bytes) {
    return [&asked, bytes] {
      ++asked;
      return bytes;
    };
  };
  const Alternative alternatives[] = {{"remat_policy=FULL", taking(kTooMuch / 2)},
                                      {"num_frames=9", taking(1'000'000)},
                                      {"num_frames=5", taking(1)}};

  check_fits("a step", 1000, devices, alternatives);
  EXPECT_EQ(asked, 0);

  EXPECT_THAT([&] { check_fits("a step", kTooMuch, devices, alternatives); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a step needs 1125899.9 GB"),
                                         HasSubstr("are free\n  with num_frames=9 it needs"))));
  EXPECT_EQ(asked, 2);

  // An alternative whose lower bound does not fit is not measured.
  const Alternative some[] = {{"optimizer=adamw8bit", taking(1), taking(kTooMuch)},
                              {"num_frames=5", taking(1), taking(1)}};
  asked = 0;
  EXPECT_THAT([&] { check_fits("a step", kTooMuch, devices, some); },
              ThrowsMessage<Error>(HasSubstr("with num_frames=5 it needs")));
  EXPECT_EQ(asked, 3) << "two least ones, and one step";
  EXPECT_THAT([&] { check_fits("a step", kTooMuch, devices, {}); },
              ThrowsMessage<Error>(
                  HasSubstr("\n  a smaller batch (per_device_batch_size), a smaller model")));
}

}  // namespace
}  // namespace kinema::training
