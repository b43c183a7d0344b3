#include "kinema/planning/traffic.h"

#include <gtest/gtest.h>

namespace kinema::planning {
namespace {

using pjrt::HloComputation;
using pjrt::HloInstruction;
using pjrt::HloModule;
using pjrt::HloShape;

HloShape f32(std::vector<int64_t> dims, int64_t space = 0) {
  return {.type = "f32", .dims = std::move(dims), .memory_space = space};
}
HloShape s32() { return {.type = "s32"}; }
HloShape pred() { return {.type = "pred"}; }
HloShape tuple(std::vector<HloShape> parts) { return {.type = "tuple", .parts = std::move(parts)}; }

/// An entry computation with one loop over (step, x), up to `limit` by `by`, whose body applies
/// `inside` to x.
HloModule looped(int64_t limit, int64_t by, const HloInstruction& inside) {
  const HloShape x = f32({8});
  const HloShape state = tuple({s32(), x});
  HloComputation condition{
      .name = "condition",
      .instructions =
          {{.opcode = "parameter", .shape = state},
           {.opcode = "get-tuple-element", .shape = s32(), .operands = {0}, .number = 0},
           {.opcode = "constant", .shape = s32(), .value = limit},
           {.opcode = "compare", .direction = "LT", .shape = pred(), .operands = {1, 2}}},
      .root = 3};
  HloComputation body{
      .name = "body",
      .instructions =
          {{.opcode = "parameter", .shape = state},
           {.opcode = "get-tuple-element", .shape = s32(), .operands = {0}, .number = 0},
           {.opcode = "get-tuple-element", .shape = x, .operands = {0}, .number = 1},
           {.opcode = "constant", .shape = s32(), .value = by},
           {.opcode = "add", .shape = s32(), .operands = {1, 3}},
           inside,
           {.opcode = "tuple", .shape = state, .operands = {4, 5}}},
      .root = 6};
  body.instructions[5].operands = {2};
  HloComputation entry{
      .name = "entry",
      .instructions = {{.opcode = "parameter", .shape = x},
                       {.opcode = "constant", .shape = s32(), .value = 0},
                       {.opcode = "tuple", .shape = state, .operands = {1, 0}},
                       {.opcode = "while", .shape = state, .operands = {2}, .calls = {1, 0}}},
      .root = 3};
  return {.name = "m", .computations = {condition, body, entry}, .entry = 2};
}

TEST(TripCount, IsReadFromTheConditionAndTheStep) {
  const HloInstruction nothing{.opcode = "copy", .shape = f32({8})};
  const HloModule forty = looped(40, 1, nothing);
  EXPECT_EQ(trip_count(forty, forty.computations[2], 3), 40);
  const HloModule twos = looped(41, 2, nothing);
  EXPECT_EQ(trip_count(twos, twos.computations[2], 3), 21);
}

TEST(TripCount, TakesTheCompilersWordWhereItGivesOne) {
  HloModule module = looped(40, 1, {.opcode = "copy", .shape = f32({8})});
  module.computations[2].instructions[3].backend_config = R"({"known_trip_count":{"n":"7"}})";
  EXPECT_EQ(trip_count(module, module.computations[2], 3), 7);
}

TEST(TripCount, IsZeroWhereTheConditionSaysSomethingElse) {
  HloModule module = looped(40, 1, {.opcode = "copy", .shape = f32({8})});
  module.computations[0].instructions[3].direction = "NE";
  EXPECT_EQ(trip_count(module, module.computations[2], 3), 0);
  EXPECT_EQ(traffic(module).unknown_loops, 1);
}

TEST(Traffic, MultipliesACollectiveByTheStepsOfItsLoop) {
  const Traffic found =
      traffic(looped(40, 1, {.opcode = "all-reduce", .shape = f32({8}), .group = 4}));
  ASSERT_EQ(found.collectives.size(), 1U);
  // 32 bytes each time; in a ring of 4 each device sends 2 x 3/4 of them.
  EXPECT_EQ(found.collectives.at("all-reduce"),
            (CollectiveSum{.count = 40, .bytes = 40 * 32, .interconnect_bytes = 40 * 48}));
  EXPECT_EQ(found.unknown_loops, 0);
}

TEST(Traffic, CountsEachKindByWhatItSends) {
  const auto one = [](const char* opcode, HloShape result) {
    const HloComputation entry{.name = "entry",
                               .instructions = {{.opcode = "parameter", .shape = f32({8})},
                                                {.opcode = opcode,
                                                 .shape = std::move(result),
                                                 .operands = {0},
                                                 .group = 4}},
                               .root = 1};
    return traffic({.name = "m", .computations = {entry}, .entry = 0}).collectives;
  };
  EXPECT_EQ(one("all-gather", f32({32})).at("all-gather"),
            (CollectiveSum{.count = 1, .bytes = 128, .interconnect_bytes = 96}));
  EXPECT_EQ(one("all-gather-start", tuple({f32({8}), f32({32})})).at("all-gather").bytes, 128);
  EXPECT_EQ(one("reduce-scatter", f32({2})).at("reduce-scatter"),
            (CollectiveSum{.count = 1, .bytes = 32, .interconnect_bytes = 24}));
  EXPECT_EQ(one("all-to-all", f32({8})).at("all-to-all").interconnect_bytes, 24);
  EXPECT_EQ(one("collective-permute", f32({8})).at("collective-permute").interconnect_bytes, 32);
  EXPECT_TRUE(one("all-gather-done", f32({32})).empty()) << "the start has been counted";
  EXPECT_TRUE(one("add", f32({8})).empty());
}

TEST(Traffic, CountsOnlyTheSliceThatAFusionReads) {
  const HloComputation fused{
      .name = "fused",
      .instructions = {{.opcode = "parameter", .shape = f32({40, 8}), .number = 0},
                       {.opcode = "parameter", .shape = s32(), .number = 1},
                       {.opcode = "dynamic-slice", .shape = f32({1, 8}), .operands = {0, 1}}},
      .root = 2};
  const HloComputation entry{.name = "entry",
                             .instructions = {{.opcode = "parameter", .shape = f32({40, 8})},
                                              {.opcode = "constant", .shape = s32(), .value = 0},
                                              {.opcode = "fusion",
                                               .shape = f32({1, 8}),
                                               .operands = {0, 1},
                                               .calls = {0}}},
                             .root = 2};
  // 32 bytes read, 4 for the index, 32 written.
  EXPECT_EQ(traffic({.name = "m", .computations = {fused, entry}, .entry = 1}).hbm_bytes, 68);
}

TEST(Traffic, LooksForSlicesInFusionsInsideAFusion) {
  const HloComputation inner{
      .name = "inner",
      .instructions = {{.opcode = "parameter", .shape = f32({40, 8}), .number = 0},
                       {.opcode = "parameter", .shape = s32(), .number = 1},
                       {.opcode = "dynamic-slice", .shape = f32({1, 8}), .operands = {0, 1}}},
      .root = 2};
  // Adds the slice to itself, and also writes the sum into a stack.
  const HloComputation outer{
      .name = "outer",
      .instructions =
          {{.opcode = "parameter", .shape = f32({40, 8}), .number = 0},
           {.opcode = "parameter", .shape = s32(), .number = 1},
           {.opcode = "parameter", .shape = f32({40, 8}), .number = 2},
           {.opcode = "fusion", .shape = f32({1, 8}), .operands = {0, 1}, .calls = {0}},
           {.opcode = "add", .shape = f32({1, 8}), .operands = {3, 3}},
           {.opcode = "dynamic-update-slice", .shape = f32({40, 8}), .operands = {2, 4, 1, 1}},
           {.opcode = "tuple", .shape = tuple({f32({1, 8}), f32({40, 8})}), .operands = {4, 5}}},
      .root = 6};
  const HloComputation entry{.name = "entry",
                             .instructions = {{.opcode = "parameter", .shape = f32({40, 8})},
                                              {.opcode = "constant", .shape = s32(), .value = 0},
                                              {.opcode = "fusion",
                                               .shape = tuple({f32({1, 8}), f32({40, 8})}),
                                               .operands = {0, 1, 0},
                                               .calls = {1}}},
                             .root = 2};
  // 32 bytes read, 4 for the index, 32 for the sum and 32 for the stack.
  EXPECT_EQ(traffic({.name = "m", .computations = {inner, outer, entry}, .entry = 2}).hbm_bytes,
            100);
}

TEST(Traffic, CountsWhatCudnnsAttentionSumsUpInButNoOtherWorkspaces) {
  const auto moved = [](const char* target, const char* workspace) {
    const HloShape bytes{.type = workspace, .dims = {1000}};
    const HloComputation entry{.name = "entry",
                               .instructions = {{.opcode = "parameter", .shape = f32({8})},
                                                {.opcode = "custom-call",
                                                 .target = target,
                                                 .shape = tuple({f32({8}), bytes}),
                                                 .operands = {0}}},
                               .root = 1};
    return traffic({.name = "m", .computations = {entry}, .entry = 0}).hbm_bytes;
  };
  EXPECT_EQ(moved("__cudnn$fmhaSoftmax", "u8"), 64);
  EXPECT_EQ(moved("__cudnn$fmhaSoftmaxBackward", "u8"), 64 + 2 * 1000);
  // Most products do not use cuBLAS's workspace; counting 32 MiB for each was nearly all the
  // traffic of a small model.
  for (const char* product : {"__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8"}) {
    EXPECT_EQ(moved(product, "s8"), 64) << product;
  }
  EXPECT_EQ(moved("__cublas$lt$matmul", "f32"), 64 + 4000) << "a second result";
}

TEST(Traffic, LeavesOutTheWorkspaceOfAProductInAFusion) {
  const HloShape workspace{.type = "s8", .dims = {1000}};
  const HloShape both = tuple({f32({1, 8}), workspace});
  const HloInstruction given{.opcode = "parameter", .shape = f32({1, 8}), .number = 0};
  const HloInstruction product{
      .opcode = "custom-call", .target = "__cublas$lt$matmul", .shape = both, .operands = {0, 0}};
  const HloComputation alone{.name = "alone", .instructions = {given, product}, .root = 1};
  // Writes the product into a stack, like gradients in a loop over layers.
  const HloShape stacked = tuple({f32({40, 8}), workspace});
  const HloComputation into_stack{
      .name = "into_stack",
      .instructions =
          {given,
           product,
           {.opcode = "parameter", .shape = f32({40, 8}), .number = 1},
           {.opcode = "constant", .shape = s32(), .value = 0},
           {.opcode = "get-tuple-element", .shape = f32({1, 8}), .operands = {1}, .number = 0},
           {.opcode = "dynamic-update-slice", .shape = f32({40, 8}), .operands = {2, 4, 3, 3}},
           {.opcode = "get-tuple-element", .shape = workspace, .operands = {1}, .number = 1},
           {.opcode = "tuple", .shape = stacked, .operands = {5, 6}}},
      .root = 7};
  const HloComputation entry{
      .name = "entry",
      .instructions = {{.opcode = "parameter", .shape = f32({1, 8})},
                       {.opcode = "parameter", .shape = f32({40, 8})},
                       {.opcode = "fusion", .shape = both, .operands = {0}, .calls = {0}},
                       {.opcode = "fusion", .shape = stacked, .operands = {0, 1}, .calls = {1}}},
      .root = 3};
  // Each reads 32 bytes and writes 32.
  EXPECT_EQ(
      traffic({.name = "m", .computations = {alone, into_stack, entry}, .entry = 2}).hbm_bytes,
      128);
}

TEST(Traffic, TellsHostMemoryFromTheDevices) {
  constexpr int64_t kHost = 5;
  constexpr int64_t kOnChip = 1;
  const HloComputation entry{
      .name = "entry",
      .instructions = {{.opcode = "parameter", .shape = f32({8})},
                       {.opcode = "copy", .shape = f32({8}, kHost), .operands = {0}},
                       {.opcode = "copy", .shape = f32({8}, kOnChip), .operands = {0}}},
      .root = 1};
  const Traffic found = traffic({.name = "m", .computations = {entry}, .entry = 0});
  EXPECT_EQ(found.host_bytes, 32);
  EXPECT_EQ(found.hbm_bytes, 64) << "each copy reads HBM, none writes it";
}

}  // namespace
}  // namespace kinema::planning
