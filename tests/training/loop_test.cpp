#include "kinema/training/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::training {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A loop without a device that records its calls.
struct Dummy {
  std::vector<int64_t> steps, saves;
  std::vector<StepRecord> records;
  std::vector<std::string> lines;
  int64_t batches = 1000;
  int64_t bad_step = -1;
  int64_t stop_after = -1;
  bool writing = false;  // a checkpoint in progress
  size_t full_after = 0;

  LoopParts parts() {
    return {
        .next_batch = [this]() -> std::optional<data::Batch> {
          if (batches-- <= 0) {
            return std::nullopt;
          }
          return data::Batch{.ids = {"clip_00.mp4", "clip_07.mp4"}};
        },
        .learning_rate = [](int64_t step) { return 0.1 * static_cast<double>(step); },
        .run_step =
            [this](int64_t step, double, const data::Batch&) {
              steps.push_back(step);
              const bool bad = step == bad_step;
              return StepResult{.loss = bad ? std::numeric_limits<double>::quiet_NaN() : 1.0,
                                .finite = !bad};
            },
        .find_nonfinite = [](int64_t, const data::Batch&) { return "blocks.3.attn1"; },
        .save =
            [this](int64_t done, bool go_on) {
              saves.push_back(done);
              writing = go_on;
            },
        .saved =
            [this](bool wait) {
              if (writing && steps.size() == full_after) {
                throw Error("disk full");
              }
              writing = writing && !wait;
            },
        .report = [this](const StepRecord& record) { records.push_back(record); },
        .stop_requested = [this] { return static_cast<int64_t>(steps.size()) == stop_after; },
        .say = [this](const std::string& line) { lines.push_back(line); },
    };
  }
};

TEST(Loop, RunsEveryStepOnceAndReportsTheLastOneToo) {
  Dummy dummy;

  const LoopEnd end = train_loop({.max_steps = 3}, dummy.parts());

  EXPECT_THAT(dummy.steps, ElementsAre(0, 1, 2));
  ASSERT_EQ(dummy.records.size(), 3);
  EXPECT_EQ(dummy.records[2].step, 2);
  EXPECT_DOUBLE_EQ(dummy.records[2].learning_rate, 0.2);
  EXPECT_EQ(end.steps, 3);
  EXPECT_FALSE(end.stopped);
}

TEST(Loop, SavesPeriodicallyAndAtTheEndButNotTwice) {
  Dummy dummy;
  train_loop({.max_steps = 6, .checkpoint_every = 2}, dummy.parts());
  EXPECT_THAT(dummy.saves, ElementsAre(2, 4, 6));

  Dummy odd;
  train_loop({.max_steps = 5, .checkpoint_every = 2}, odd.parts());
  EXPECT_THAT(odd.saves, ElementsAre(2, 4, 5));
}

TEST(Loop, EvaluatesPeriodically) {
  Dummy dummy;
  LoopParts parts = dummy.parts();
  std::vector<int64_t> after;
  parts.evaluate = [&](int64_t step) { after.push_back(step); };
  train_loop({.max_steps = 7, .eval_every = 3}, parts);
  EXPECT_THAT(after, ElementsAre(2, 5));
}

TEST(Loop, SavesAndSamplesWhenItIsAsked) {
  Dummy dummy;
  LoopParts parts = dummy.parts();
  std::vector<int64_t> sampled;
  parts.asked = [&] {
    return Asked{.save = dummy.steps.size() == 2, .sample = dummy.steps.size() == 3};
  };
  parts.sample = [&](int64_t step) { sampled.push_back(step); };

  train_loop({.max_steps = 5}, parts);

  EXPECT_THAT(dummy.saves, ElementsAre(2, 5));
  EXPECT_THAT(sampled, ElementsAre(2));
}

TEST(Loop, SavesBeforeAnEvaluationThatFailsEndsIt) {
  Dummy dummy;
  LoopParts parts = dummy.parts();
  parts.evaluate = [](int64_t) { throw Error("no such clip"); };
  EXPECT_THAT([&] { train_loop({.max_steps = 7, .eval_every = 3}, parts); },
              ThrowsMessage<Error>(HasSubstr("no such clip")));
  EXPECT_THAT(dummy.saves, ElementsAre(3));
  EXPECT_FALSE(dummy.writing);

  Dummy saved;  // already there
  parts = saved.parts();
  parts.evaluate = [](int64_t) { throw Error("no such clip"); };
  EXPECT_THROW(train_loop({.max_steps = 7, .checkpoint_every = 3, .eval_every = 3}, parts), Error);
  EXPECT_THAT(saved.saves, ElementsAre(3));
  EXPECT_FALSE(saved.writing);
}

TEST(Loop, SavesBeforeDataThatCannotBeReadEndsIt) {
  Dummy dummy;
  LoopParts parts = dummy.parts();
  parts.next_batch = [&]() -> std::optional<data::Batch> {
    check(dummy.steps.size() < 3, "a record is damaged");
    return data::Batch();
  };
  EXPECT_THAT([&] { train_loop({.max_steps = 9}, parts); },
              ThrowsMessage<Error>(HasSubstr("a record is damaged")));
  EXPECT_THAT(dummy.saves, ElementsAre(3));
  EXPECT_FALSE(dummy.writing);
}

TEST(Loop, WaitsForAStartedCheckpoint) {
  Dummy dummy;
  train_loop({.max_steps = 5, .checkpoint_every = 2, .final_checkpoint = false}, dummy.parts());
  EXPECT_THAT(dummy.saves, ElementsAre(2, 4));
  EXPECT_FALSE(dummy.writing);

  Dummy last;  // nothing follows, so nothing is left to wait for
  train_loop({.max_steps = 2, .checkpoint_every = 2}, last.parts());
  EXPECT_THAT(last.saves, ElementsAre(2));
  EXPECT_FALSE(last.writing);
}

TEST(Loop, StopsAtTheStepOfAFailedCheckpoint) {
  Dummy dummy{.full_after = 3};
  EXPECT_THAT([&] { train_loop({.max_steps = 9, .checkpoint_every = 2}, dummy.parts()); },
              ThrowsMessage<Error>(HasSubstr("disk full")));
  EXPECT_THAT(dummy.steps, ElementsAre(0, 1, 2));
}

TEST(Loop, OmitsTheFinalCheckpointIfConfigured) {
  Dummy dummy;
  train_loop({.max_steps = 3, .final_checkpoint = false}, dummy.parts());
  EXPECT_TRUE(dummy.saves.empty());
}

TEST(Loop, ResumesAtTheFirstStep) {
  Dummy dummy;
  train_loop({.first_step = 4, .max_steps = 6}, dummy.parts());
  EXPECT_THAT(dummy.steps, ElementsAre(4, 5));
}

TEST(Loop, DoesNothingWhenAllStepsAreDone) {
  Dummy dummy;
  train_loop({.first_step = 6, .max_steps = 6}, dummy.parts());
  EXPECT_TRUE(dummy.steps.empty());
  EXPECT_TRUE(dummy.saves.empty());
}

TEST(Loop, FinishesTheStepAndSavesWhenAskedToStop) {
  Dummy dummy;
  dummy.stop_after = 2;

  const LoopEnd end = train_loop({.max_steps = 9, .final_checkpoint = false}, dummy.parts());

  EXPECT_THAT(dummy.steps, ElementsAre(0, 1));
  EXPECT_THAT(dummy.saves, ElementsAre(2));
  EXPECT_TRUE(end.stopped);
}

TEST(Loop, StopsAtAStepThatIsNotFiniteAndSaysWhere) {
  Dummy dummy;
  dummy.bad_step = 1;

  EXPECT_THAT([&] { train_loop({.max_steps = 3}, dummy.parts()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("step 2 is"), HasSubstr("blocks.3.attn1"),
                                         HasSubstr("clip_00.mp4, clip_07.mp4"),
                                         HasSubstr("on_nonfinite=skip"))));
  EXPECT_EQ(dummy.records.size(), 2);
  EXPECT_EQ(dummy.records[1].nonfinite, "blocks.3.attn1");
  EXPECT_THAT(dummy.saves, ElementsAre(1));  // the reached state is not lost
}

TEST(Loop, SkipsNonFiniteStepsIfConfigured) {
  Dummy dummy;
  dummy.bad_step = 1;

  const LoopEnd end =
      train_loop({.max_steps = 3, .on_nonfinite = OnNonfinite::SKIP}, dummy.parts());

  EXPECT_THAT(dummy.steps, ElementsAre(0, 1, 2));
  EXPECT_EQ(end.skipped, 1);
  EXPECT_THAT(dummy.lines, ElementsAre(HasSubstr("blocks.3.attn1")));
}

TEST(Loop, SaysWhenTheDataEnds) {
  Dummy dummy;
  dummy.batches = 2;
  EXPECT_THAT([&] { train_loop({.max_steps = 3}, dummy.parts()); },
              ThrowsMessage<Error>(HasSubstr("data ended after 2 of 3 steps")));
}

TEST(Loop, WritesTheConsoleLineOfTheReferenceCountedFromOne) {
  const StepRecord record{.step = 12, .loss = 0.8421, .seconds = 0.2409, .tflops = 0.2409 * 103.1};
  EXPECT_EQ(console_line(record),
            "completed step: 13, seconds: 0.241, TFLOP/s/device: 103.100, loss: 0.842");
}

TEST(Loop, GivesTheRateOfASmallModelInAUnitThatShowsIt) {
  const auto line = [](double tera) {
    return console_line({.loss = 1, .seconds = 1, .tflops = tera});
  };
  EXPECT_THAT(line(0.1031), HasSubstr("GFLOP/s/device: 103.100"));
  EXPECT_THAT(line(4.2e-5), HasSubstr("MFLOP/s/device: 42.000"));
  EXPECT_THAT(line(0), HasSubstr("TFLOP/s/device: 0.000"));
}

TEST(Loop, ReportsUtilizationOfAKnownPeak) {
  StepRecord record{.step = 0, .loss = 1, .seconds = 2, .tflops = 378, .peak_tflops = 459};
  EXPECT_DOUBLE_EQ(model_flops_utilization(record), 189.0 / 459);
  record.expected_seconds = 1.25;
  EXPECT_THAT(console_line(record), testing::HasSubstr(" (plan: 1.250), "));
  EXPECT_THAT(console_line(record), testing::EndsWith("loss: 1.000, MFU: 41.2 %"));
  EXPECT_EQ(model_flops_utilization({.seconds = 2, .tflops = 378}), 0) << "no peak is known";
  EXPECT_EQ(model_flops_utilization({.tflops = 378, .peak_tflops = 459}), 0);
}

TEST(Loop, AnnouncesEachStepBeforeItStarts) {
  Dummy dummy;
  LoopParts parts = dummy.parts();
  std::vector<std::string> order;
  parts.begin_step = [&](int64_t step) { order.push_back(fmt::format("begin {}", step)); };
  parts.next_batch = [&]() -> std::optional<data::Batch> {
    order.emplace_back("data");
    return data::Batch{};
  };
  train_loop({.first_step = 3, .max_steps = 5}, parts);
  EXPECT_THAT(order, ElementsAre("begin 3", "data", "begin 4", "data"));
}

}  // namespace
}  // namespace kinema::training
