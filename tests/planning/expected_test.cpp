#include "kinema/planning/expected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kinema/planning/traffic.h"

namespace kinema::planning {
namespace {

using pjrt::HloComputation;
using pjrt::HloInstruction;
using pjrt::HloModule;
using pjrt::HloShape;

const Chip& chip(std::string_view name) { return *std::ranges::find(chips(), name, &Chip::name); }

HloShape bf16(std::vector<int64_t> dims) { return {.type = "bf16", .dims = std::move(dims)}; }

HloModule entry_of(std::vector<HloInstruction> instructions) {
  const size_t root = instructions.size() - 1;
  return {
      .name = "m",
      .computations = {{.name = "entry", .instructions = std::move(instructions), .root = root}},
      .entry = 0};
}

TEST(ExpectedTime, OfATpuIsTheCompilersCyclesAtTheClockOfThePeak) {
  // A product of 1 GFLOP whose cycles mean that it runs at the peak.
  const Chip& v5p = chip("v5p");
  const HloModule program =
      entry_of({{.opcode = "parameter", .shape = bf16({8, 128})},
                {.opcode = "fusion",
                 .backend_config = R"({"window_config":{"estimated_cycles":"262144"}})",
                 .shape = bf16({8, 128}),
                 .operands = {0}}});
  const ExpectedTime time = expected_time(program, v5p);

  EXPECT_NEAR(time.seconds(), 262144.0 * 262144 / v5p.flops, 1e-9);
  EXPECT_EQ(time.waiting_seconds, 0);
}

TEST(ExpectedTime, OfCopiesIsBoundByMemoryBandwidth) {
  const Chip& v6e = chip("v6e");
  const HloShape large = bf16({1 << 15, 1 << 14});
  const HloModule program =
      entry_of({{.opcode = "parameter", .shape = large},
                {.opcode = "fusion",
                 .backend_config = R"({"window_config":{"estimated_cycles":"1"}})",
                 .shape = large,
                 .operands = {0}}});

  const double moved = 2.0 * static_cast<double>(large.bytes());
  const double seconds = expected_time(program, v6e).seconds();
  EXPECT_GT(seconds, moved / v6e.memory_bandwidth);
  EXPECT_LT(seconds, 1.2 * moved / v6e.memory_bandwidth);
}

/// Two collectives of 1 MiB among 4 devices; the second is asynchronous with `work` cycles
/// overlapped.
HloModule with_collectives(int64_t work) {
  const HloShape x = bf16({512, 1024});
  const HloShape both{.type = "tuple", .parts = {x, x}};
  return entry_of(
      {{.opcode = "parameter", .shape = x},
       {.opcode = "collective-permute", .shape = x, .operands = {0}, .group = 4},
       {.opcode = "collective-permute-start", .shape = both, .operands = {1}, .group = 4},
       {.opcode = "fusion",
        .backend_config =
            "{\"window_config\":{\"estimated_cycles\":\"" + std::to_string(work) + "\"}}",
        .shape = bf16({8})},
       {.opcode = "collective-permute-done", .shape = x, .operands = {2}}});
}

TEST(ExpectedTime, WaitsForCollectivesWithoutOverlap) {
  const Chip& v5p = chip("v5p");
  const double one = 1024.0 * 1024 / v5p.interconnect_bandwidth;

  EXPECT_NEAR(expected_time(with_collectives(0), v5p).waiting_seconds, 2 * one, one / 10);
  // With 10 ms of overlapped work the asynchronous one is hidden.
  EXPECT_NEAR(expected_time(with_collectives(17'500'000), v5p).waiting_seconds, one, one / 100);
}

TEST(ExpectedTime, OfAGpusProductsIsAShareOfThePeakInFusionsToo) {
  const Chip& h100 = chip("h100");
  const HloShape square = bf16({8192, 8192});
  const double flops = 2.0 * 8192 * 8192 * 8192;
  const HloModule library = entry_of(
      {{.opcode = "parameter", .shape = square},
       {.opcode = "custom-call",
        .target = "__cublas$lt$matmul",
        .backend_config =
            R"({"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}})",
        .shape = square,
        .operands = {0, 0}}});
  HloModule fused =
      entry_of({{.opcode = "parameter", .shape = square},
                {.opcode = "fusion", .shape = square, .operands = {0}, .calls = {1}}});
  fused.computations.push_back(
      {.name = "inside",
       .instructions = {{.opcode = "parameter", .shape = square},
                        {.opcode = "dot", .shape = square, .operands = {0, 0}, .contracted = {1}}},
       .root = 1});

  for (const HloModule& program : {library, fused}) {
    const double seconds = expected_time(program, h100).seconds();
    EXPECT_GT(seconds, flops / h100.flops);
    EXPECT_LT(seconds, 1.4 * flops / h100.flops);
  }
}

TEST(ExpectedTime, OfAGpusConvolutionIsTheSameForwardAndBackward) {
  const Chip& h100 = chip("h100");
  const HloShape x = bf16({4, 128, 128, 1024});
  const HloShape y = bf16({4, 128, 128, 512});
  const HloShape kernel = bf16({512, 3, 3, 1024});
  const double flops = 2.0 * 4 * 128 * 128 * 512 * 3 * 3 * 1024;
  const auto seconds = [&](const char* target, const HloShape& result, const HloShape& first,
                           const HloShape& second) {
    const HloShape bytes{.type = "u8", .dims = {0}};
    return expected_time(entry_of({{.opcode = "parameter", .shape = first, .number = 0},
                                   {.opcode = "parameter", .shape = second, .number = 1},
                                   {.opcode = "custom-call",
                                    .target = target,
                                    .shape = {.type = "tuple", .parts = {result, bytes}},
                                    .operands = {0, 1}}}),
                         h100)
        .seconds();
  };
  for (const double found : {seconds("__cudnn$convForward", y, x, kernel),
                             seconds("__cudnn$convBiasActivationForward", y, x, kernel),
                             seconds("__cudnn$convBackwardInput", x, y, kernel),
                             seconds("__cudnn$convBackwardFilter", kernel, x, y)}) {
    EXPECT_GT(found, flops / h100.flops);
    EXPECT_LT(found, 1.4 * flops / h100.flops);
  }
}

/// Attention of 75,600 tokens with 5 heads, as the compiler leaves cuDNN's calls.
HloModule cudnn(const std::string& target, int64_t workspace, int64_t tokens = 75600) {
  const HloShape q = bf16({1, tokens, 5, 128});
  const HloShape y = bf16({1, 5, tokens, 128});
  const HloShape bytes{.type = "u8", .dims = {workspace}};
  const bool backward = target.ends_with("Backward");
  const HloShape results{
      .type = "tuple",
      .parts = backward ? std::vector<HloShape>{y, y, y, bytes} : std::vector<HloShape>{y, bytes}};
  return entry_of(
      {{.opcode = "parameter", .shape = q},
       {.opcode = "custom-call", .target = target, .shape = results, .operands = {0, 0, 0}}});
}

TEST(ExpectedTime, OfCudnnsAttentionIsAtPublishedRates) {
  constexpr double kProduct = 2.0 * 5 * 75600 * 75600 * 128;
  struct Row {
    const char* chip;
    double forward, backward;
  };
  for (const Row& row :
       {Row{"h100", 572.0 / 989, 548.0 / 989}, Row{"h200", 572.0 / 989, 548.0 / 989},
        Row{"b200", 1520.0 / 2500, 1226.0 / 2500}, Row{"a100", 169.0 / 312, 128.0 / 312}}) {
    SCOPED_TRACE(row.chip);
    const Chip& gpu = chip(row.chip);
    const ExpectedTime forward = expected_time(cudnn("__cudnn$fmhaSoftmax", 256), gpu);
    ASSERT_EQ(forward.kernels.size(), 1U);
    EXPECT_EQ(forward.kernels[0].name, "flash forward (cuDNN)");
    EXPECT_EQ(forward.kernels[0].flops, 2 * kProduct);
    EXPECT_NEAR(forward.seconds(), 2 * kProduct / gpu.flops / row.forward + gpu.kernel_start, 1e-9);
    EXPECT_NEAR(forward.kernels[0].peak_seconds / forward.kernels[0].seconds, row.forward, 1e-9);

    const ExpectedTime backward =
        expected_time(cudnn("__cudnn$fmhaSoftmaxBackward", 195048256), gpu);
    EXPECT_NEAR(backward.seconds(), 5 * kProduct / gpu.flops / row.backward + gpu.kernel_start,
                1e-9);
    EXPECT_EQ(forward.note.empty(), std::string_view(row.chip) != "b200") << forward.note;
  }
  EXPECT_THAT(expected_time(cudnn("__cudnn$fmhaSoftmax", 0), chip("l40s")).note,
              ::testing::HasSubstr("assumed to be A100's"));
}

TEST(ExpectedTime, OfCudnnsAttentionFollowsTheLengthAndTheBits) {
  const auto share = [](const char* target, int64_t tokens) {
    const auto kernel = expected_time(cudnn(target, 0, tokens), chip("h100")).kernels.at(0);
    return kernel.peak_seconds / kernel.seconds;
  };
  EXPECT_NEAR(share("__cudnn$fmhaSoftmax", 32760), 620.0 / 989, 1e-9);
  EXPECT_NEAR(share("__cudnn$fmhaSoftmax", 32761), 581.0 / 989, 1e-9) << "that of more tokens";
  EXPECT_NEAR(share("__cudnn$fmhaSoftmax", 200000), 572.0 / 989, 1e-9);
  EXPECT_NEAR(share("__cudnn$fmhaSoftmaxF8", 32760), 857.0 / 989, 1e-9);
  EXPECT_EQ(expected_time(cudnn("__cudnn$fmhaSoftmaxF8", 0), chip("h200")).kernels[0].name,
            "flash forward (cuDNN, FP8)");
}

TEST(ExpectedTime, OfOurTritonKernelsIsAtTheirRates) {
  HloModule program = cudnn("__gpu$xla.gpu.triton", 0);
  HloInstruction& call = program.computations[0].instructions[1];
  const auto seconds = [&](const char* name, const char* on) {
    call.backend_config = std::string("{name = \"") + name + "\", num_warps = 8 : i32}";
    return expected_time(program, chip(on)).seconds() - chip(on).kernel_start;
  };
  const double product = 2.0 * 5 * 75600 * 75600 * 128 / chip("h100").flops;
  const double forward = 395.0 / 989;
  const double backward = forward * 322 / 370;
  EXPECT_NEAR(seconds("flash_forward_b1_s75600_t75600_n5_d128_bf16", "h100"), 2 * product / forward,
              1e-9);
  EXPECT_NEAR(seconds("flash_backward_dkv_b1_s75600_t75600_n5_d128_bf16", "h100"),
              4 * product / backward, 1e-9);
  EXPECT_NEAR(seconds("flash_backward_dq_b1_s75600_t75600_n5_d128_bf16", "h100"),
              3 * product / backward, 1e-9);
  EXPECT_LT(seconds("another", "h100"), 0.1 * product) << "what it moves is all that is known";
}

/// A loop whose body adds to its state, and whose condition is also a fusion.
HloModule looped(const std::string& backend_config) {
  const HloShape step{.type = "s32"};
  const HloInstruction state{.opcode = "parameter", .shape = step};
  const HloShape pred{.type = "pred"};
  return {.name = "m",
          .computations = {{.name = "entry",
                            .instructions = {state,
                                             {.opcode = "while",
                                              .backend_config = backend_config,
                                              .shape = step,
                                              .operands = {0},
                                              .calls = {1, 2}}},
                            .root = 1},
                           {.name = "condition",
                            .instructions = {state,
                                             {.opcode = "fusion", .shape = pred, .operands = {0}}},
                            .root = 1},
                           {.name = "body",
                            .instructions = {state,
                                             {.opcode = "bitcast", .shape = step, .operands = {0}},
                                             {.opcode = "copy", .shape = step, .operands = {1}},
                                             {.opcode = "fusion", .shape = step, .operands = {2}}},
                            .root = 3}},
          .entry = 0};
}

TEST(ExpectedTime, OfAGpuHasTheStartOfEachKernelInEachStepOfALoop) {
  const Chip& h200 = chip("h200");
  const ExpectedTime time = expected_time(looped(R"({"known_trip_count":{"n":"7"}})"), h200);

  EXPECT_EQ(time.starts, 2 * 7)
      << "a fusion and a copy; the condition of a counted loop is not run";
  EXPECT_NEAR(time.start_seconds, 14 * 1.3e-6, 1e-12);
  EXPECT_GT(time.busy_seconds, time.start_seconds) << "what they move comes on top";
  EXPECT_EQ(expected_time(looped(""), h200).starts, 3) << "a loop of unknown length runs it";
}

TEST(ExpectedTime, CountsAFusionAndACollectiveAsOneStartEach) {
  HloModule program = with_collectives(0);
  program.computations[0].instructions[3].calls = {1};
  program.computations.push_back(
      {.name = "inside",
       .instructions = {{.opcode = "parameter", .shape = bf16({8})},
                        {.opcode = "add", .shape = bf16({8}), .operands = {0, 0}}},
       .root = 1});

  EXPECT_EQ(expected_time(program, chip("h100")).starts, 3);
}

TEST(ExpectedTime, OfATpuHasNoStarts) {
  const ExpectedTime time = expected_time(with_collectives(0), chip("v5p"));
  EXPECT_EQ(time.starts, 0);
  EXPECT_EQ(time.start_seconds, 0);
}

TEST(ExpectedTime, IsNothingForACpu) {
  EXPECT_EQ(expected_time(with_collectives(5), chip("cpu")).seconds(), 0);
}

TEST(ExpectedTime, ComesBackFromJson) {
  ExpectedTime time{.busy_seconds = 1.5,
                    .waiting_seconds = 0.25,
                    .starts = 1000,
                    .start_seconds = 0.0013,
                    .note = "assumed to be H100's"};
  time.kernels.push_back(
      {.name = "flash", .count = 40, .flops = 1e12, .seconds = 0.5, .peak_seconds = 0.4});
  const ExpectedTime back = read_expected_time(io::Json::parse(to_json(time).dump(), "job"));

  EXPECT_EQ(back.busy_seconds, 1.5);
  EXPECT_EQ(back.waiting_seconds, 0.25);
  EXPECT_EQ(back.starts, 1000);
  EXPECT_EQ(back.start_seconds, 0.0013);
  EXPECT_EQ(back.note, "assumed to be H100's");
  ASSERT_EQ(back.kernels.size(), 1U);
  EXPECT_EQ(back.kernels[0].name, "flash");
  EXPECT_EQ(back.kernels[0].count, 40);
  EXPECT_EQ(back.kernels[0].peak_seconds, 0.4);
}

}  // namespace
}  // namespace kinema::planning
