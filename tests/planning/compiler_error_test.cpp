#include "kinema/planning/compiler_error.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace kinema::planning {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::string message(const ChildStatus& status, const std::string& error, const std::string& log,
                    const pjrt::CompileOptions& options = {}) {
  try {
    throw_failure(parse_target("v6e:4x4"), options, status, error, log);
  } catch (const Error& thrown) {
    const std::string text = thrown.what();
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 2) << text;
    return text;
  }
}

TEST(CompilerError, ReadsWantedAndAvailableMemory) {
  try {
    throw_failure(
        parse_target("v6e:4x4"), {}, {.exit_code = 1},
        "[pjrt] PJRT_Compile: resource exhausted: E1000: CompileTimeHbmOom: Ran out of memory on "
        "HBM, the total memory required for HLO temporaries (96.50G) exceeds available HBM "
        "(31.24G). HLO module: kinema.\nSee https://example.org for more details.",
        "");
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_DOUBLE_EQ(error.wanted(), 96.5 * kGiB);
    EXPECT_DOUBLE_EQ(error.available(), 31.24 * kGiB);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("v6e:4x4 does not fit"), HasSubstr("(96.50G)"),
                                    Not(HasSubstr("example.org"))));
  }
}

// The message of jax-cuda13-pjrt 0.12.0.1 on a machine without a CUDA toolkit.
TEST(CompilerError, SaysHowToGetTheLibrariesThatACompilerForGpusLacks) {
  EXPECT_THAT(message({.exit_code = 1},
                      "[pjrt] PJRT_Compile: No PTX compilation provider is available. Neither "
                      "ptxas/nvlink nor nvjtlink is available. As a fallback you can enable JIT",
                      ""),
              AllOf(HasSubstr("lacks a library: nvJitLink or ptxas"),
                    HasSubstr("\n  kinema doctor --install cuda")));
  EXPECT_THAT(message({.exit_code = 1},
                      "[pjrt] PJRT_Compile: libdevice not found at ./libdevice.10.bc", ""),
              HasSubstr("lacks a library: libdevice.10.bc"));
}

TEST(CompilerError, NamesTheFlagThatTheCompilerRefuses) {
  const pjrt::CompileOptions options{.flags = {{"xla_colour", true}, {"xla_other", int64_t{3}}}};
  EXPECT_THAT(message({.exit_code = 1},
                      "[pjrt] PJRT_Compile: invalid argument: No such compile option: 'xla_colour'",
                      "", options),
              AllOf(HasSubstr("refuses: invalid argument: No such compile option: 'xla_colour'"),
                    HasSubstr("\n  flag: xla_colour=true")));
}

TEST(CompilerError, NamesAllFlagsWhereTheRefusalIsOfTheirCombination) {
  const pjrt::CompileOptions options{.flags = {{"xla_fuse", true}, {"xla_async", true}}};
  EXPECT_THAT(
      message({.exit_code = 1}, "[pjrt] PJRT_Compile: failed precondition: fusing is not supported",
              "", options),
      HasSubstr("\n  flags given: xla_async=true xla_fuse=true"));
}

TEST(CompilerError, SaysThatAFlagOfTheEnvironmentIsUnknown) {
  EXPECT_THAT(message({.exit_code = 1}, "", "ERROR: Unknown command line flag 'xla_colour'\n"),
              AllOf(HasSubstr("xla_colour"), HasSubstr("LIBTPU_INIT_ARGS")));
}

TEST(CompilerError, ReportsTheLastLinesOfAnAbort) {
  const std::string log =
      "I1121 20:00:14.893711   20816 compiler.cc:289] compiling\n"
      "F1121 20:00:15.000000   20816 layout.cc:12] Check failed: rank > 0 (0 vs. 1)\n"
      "*** Check failure stack trace: ***\n    @     0x7f0000000000  (unknown)\n";
  EXPECT_THAT(message({.signal = 6}, "", log),
              AllOf(HasSubstr("ended by signal 6"), HasSubstr("Check failed: rank > 0")));
  EXPECT_THAT(message({.signal = 11}, "", ""), HasSubstr("ended by signal 11"));
}

TEST(CompilerError, KnowsTheLockFileOfAnotherProcess) {
  EXPECT_THAT(message({.exit_code = 1},
                      "[pjrt] PJRT_TopologyDescription_Create: aborted: The TPU is already in use "
                      "by process with pid 12. Not attempting to load libtpu.so in this process.",
                      ""),
              HasSubstr("/tmp/libtpu_lockfile"));
}

TEST(CompilerError, SaysHowToAllowMoreMemory) {
  EXPECT_THAT(message({.signal = 9, .too_large = true}, "", ""), HasSubstr("compile_memory_gib=N"));
}

}  // namespace
}  // namespace kinema::planning
