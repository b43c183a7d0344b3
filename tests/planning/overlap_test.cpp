#include "kinema/planning/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kinema/planning/expected.h"

namespace kinema::planning {
namespace {

using pjrt::HloComputation;
using pjrt::HloInstruction;
using pjrt::HloModule;
using pjrt::HloShape;
using Part = CollectiveOverlap::Part;

const Chip& chip(std::string_view name) { return *std::ranges::find(chips(), name, &Chip::name); }

// 2 MiB among 4 devices.
HloShape x() { return {.type = "bf16", .dims = {1024, 1024}}; }
constexpr double kBytes = 2.0 * 1024 * 1024;

HloInstruction parameter() { return {.opcode = "parameter", .shape = x()}; }
HloInstruction arithmetic() { return {.opcode = "fusion", .shape = x()}; }

/// Attention as cuDNN's call: only its shapes are read.
HloInstruction attention() {
  const HloShape q{.type = "bf16", .dims = {1, 512, 4, 128}};
  const HloShape y{.type = "bf16", .dims = {1, 4, 512, 128}};
  return {.opcode = "custom-call",
          .target = "__cudnn$fmhaSoftmax",
          .shape = {.type = "tuple", .parts = {y, {.type = "u8", .dims = {0}}}},
          .operands = {0, 0, 0}};
}

HloInstruction start(const char* kind) {
  return {.opcode = std::string(kind) + "-start",
          .shape = {.type = "tuple", .parts = {x(), x()}},
          .operands = {0},
          .group = 4};
}

HloInstruction done(const char* kind, size_t of) {
  return {.opcode = std::string(kind) + "-done", .shape = x(), .operands = {of}};
}

HloModule entry_of(std::vector<HloInstruction> instructions) {
  instructions.insert(instructions.begin(),
                      {.opcode = "parameter", .shape = {.type = "bf16", .dims = {1, 512, 4, 128}}});
  const size_t root = instructions.size() - 1;
  return {
      .name = "m",
      .computations = {{.name = "entry", .instructions = std::move(instructions), .root = root}},
      .entry = 0};
}

/// An all-to-all in a computation of its own, as compilers write asynchronous ones.
HloComputation wrapped() {
  return {.name = "wrapped",
          .instructions = {parameter(),
                           {.opcode = "all-to-all", .shape = x(), .operands = {0}, .group = 4}},
          .root = 1};
}

HloInstruction wrapped_start(size_t computation) {
  HloInstruction out = start("async");
  out.calls = {computation};
  return out;
}

Overlap read(const HloModule& program) { return overlap(program, chip("h100")); }

TEST(Overlap, IsWithAttentionWhereItsKernelStandsBetweenStartAndDone) {
  const Overlap found = read(entry_of({start("all-gather"), attention(), done("all-gather", 1)}));
  ASSERT_EQ(found.size(), 1U);
  // An all-gather's bytes are those of all devices.
  const double q_bytes = 2.0 * 512 * 4 * 128;
  EXPECT_EQ(found.at("all-gather"),
            (CollectiveOverlap{.attention = {.count = 1, .bytes = 4 * q_bytes}}));
}

TEST(Overlap, IsNoneForWhatIsBegunAfterAttentionOrDoneBeforeIt) {
  const Overlap found = read(entry_of({start("all-gather"), done("all-gather", 1), attention(),
                                       start("all-reduce"), done("all-reduce", 4)}));
  EXPECT_EQ(found.at("all-gather").exposed.count, 1);
  EXPECT_EQ(found.at("all-gather").attention.count, 0);
  EXPECT_EQ(found.at("all-reduce").exposed.count, 1);
}

TEST(Overlap, IsZeroForCollectivesThatAreAwaitedImmediately) {
  const Overlap found = read(
      entry_of({attention(), {.opcode = "all-to-all", .shape = x(), .operands = {0}, .group = 4}}));
  EXPECT_EQ(found.at("all-to-all").exposed.count, 1);
}

TEST(Overlap, TellsOtherArithmeticFromAttention) {
  const Overlap found =
      read(entry_of({start("collective-permute"), arithmetic(), done("collective-permute", 1)}));
  EXPECT_EQ(found.at("collective-permute").other.count, 1);
  // Moving and naming values is not arithmetic.
  const Overlap moved = read(entry_of({start("collective-permute"),
                                       {.opcode = "bitcast", .shape = x(), .operands = {0}},
                                       {.opcode = "copy", .shape = x(), .operands = {0}},
                                       done("collective-permute", 1)}));
  EXPECT_EQ(moved.at("collective-permute").exposed.count, 1);
}

TEST(Overlap, ReadsCollectivesInsideAsynchronousInstructions) {
  HloModule program = entry_of({wrapped_start(1),
                                attention(),
                                done("async", 1),
                                wrapped_start(1),
                                {.opcode = "async-update", .shape = x(), .operands = {4}},
                                arithmetic(),
                                done("async", 5),
                                wrapped_start(1),
                                done("async", 8)});
  program.computations.push_back(wrapped());
  EXPECT_EQ(read(program).at("all-to-all"),
            (CollectiveOverlap{.attention = {.count = 1, .bytes = kBytes},
                               .other = {.count = 1, .bytes = kBytes},
                               .exposed = {.count = 1, .bytes = kBytes}}));
}

/// A loop over `steps` whose body has an all-to-all overlapped with attention, and another one
/// alone.
HloModule looped(int64_t steps) {
  const HloShape s32{.type = "s32"};
  const HloShape state{.type = "tuple", .parts = {s32, x()}};
  const HloComputation condition{
      .name = "condition",
      .instructions =
          {{.opcode = "parameter", .shape = state},
           {.opcode = "get-tuple-element", .shape = s32, .operands = {0}, .number = 0},
           {.opcode = "constant", .shape = s32, .value = steps},
           {.opcode = "compare", .direction = "LT", .shape = {.type = "pred"}, .operands = {1, 2}}},
      .root = 3};
  HloModule program =
      entry_of({{.opcode = "constant", .shape = s32, .value = 0},
                {.opcode = "tuple", .shape = state, .operands = {1, 0}},
                {.opcode = "while", .shape = state, .operands = {2}, .calls = {1, 2}}});
  HloModule inside =
      entry_of({wrapped_start(3),
                attention(),
                done("async", 1),
                {.opcode = "all-to-all", .shape = x(), .operands = {3}, .group = 4},
                {.opcode = "constant", .shape = s32, .value = 1},
                {.opcode = "get-tuple-element", .shape = s32, .operands = {0}, .number = 0},
                {.opcode = "add", .shape = s32, .operands = {6, 5}},
                {.opcode = "tuple", .shape = state, .operands = {7, 4}}});
  inside.computations[0].name = "body";
  program.computations.push_back(condition);
  program.computations.push_back(inside.computations[0]);
  program.computations.push_back(wrapped());
  return program;
}

TEST(Overlap, CountsALoopsBodyAsOftenAsItRuns) {
  EXPECT_EQ(read(looped(40)).at("all-to-all"),
            (CollectiveOverlap{.attention = {.count = 40, .bytes = 40 * kBytes},
                               .exposed = {.count = 40, .bytes = 40 * kBytes}}));
}

TEST(Overlap, IsWithAKernelInsideALoopThatStandsBetween) {
  HloModule program = looped(3);
  HloComputation& entry = program.computations[program.entry];
  entry.instructions.push_back(done("all-gather", 3));
  entry.instructions.insert(entry.instructions.begin() + 3, start("all-gather"));
  EXPECT_EQ(read(program).at("all-gather").attention.count, 1);
}

TEST(Overlap, IgnoresCollectivesWithoutDone) {
  EXPECT_EQ(read(entry_of({start("all-reduce")})).at("all-reduce").exposed.count, 1);
  EXPECT_EQ(read(entry_of({start("all-reduce"), {.opcode = "all-reduce-done", .shape = x()}}))
                .at("all-reduce")
                .exposed.count,
            1);
}

TEST(Overlap, IsCountedInTheExpectedTime) {
  // Communication overlapped with attention costs no waiting time.
  const Chip& h100 = chip("h100");
  HloModule beside = entry_of({wrapped_start(1), attention(), done("async", 1)});
  HloModule alone = entry_of({wrapped_start(1), done("async", 1), attention()});
  for (HloModule* program : {&beside, &alone}) {
    program->computations.push_back(wrapped());
  }
  const double sends = kBytes * 0.25 * 3 / h100.interconnect_bandwidth;
  EXPECT_NEAR(expected_time(alone, h100).waiting_seconds, sends, 1e-12);
  const double kernel = expected_time(beside, h100).kernels.at(0).seconds + h100.kernel_start;
  EXPECT_NEAR(expected_time(beside, h100).waiting_seconds, std::max(0.0, sends - kernel), 1e-12);
}

TEST(Overlap, ComesBackFromJson) {
  const Overlap given{{"all-to-all",
                       {.attention = {.count = 3, .bytes = 1e9},
                        .other = {.count = 2, .bytes = 5},
                        .exposed = {.count = 1, .bytes = 7}}}};
  EXPECT_EQ(read_overlap(io::Json::parse(to_json(given).dump(), "job")), given);
}

}  // namespace
}  // namespace kinema::planning
