#include "kinema/flags/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "flags/lists.h"
#include "kinema/flags/fix.h"
#include "kinema/flags/profile.h"

namespace kinema::flags {
namespace {

using flags_test::errors;
using flags_test::finding;
using flags_test::ids;
using flags_test::in_xla_flags;
using flags_test::on_tpu;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kPair =
    "--xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true "
    "--xla_enable_async_all_reduce=true";

// The five flags of the NaN report as bits: 1 fusion (F1), 2 fuse_all_reduce (F2), 4 multiple_steps
// (F3), 8 overlap (O1), 16 async_all_reduce (O2). Compiled with libtpu 0.0.51 and 0.0.52: flags
// that are on set to true, the others not set. v5e compiles all 32 combinations; v4, v5p, v6e and
// tpu7x refuse these.
const std::set<int>& refused_when_the_rest_is_unset() {
  static const std::set<int> settings = {2 + 16,         1 + 2 + 16,        2 + 4 + 16,
                                         2 + 8 + 16,     1 + 2 + 4 + 16,    1 + 2 + 8 + 16,
                                         2 + 4 + 8 + 16, 1 + 2 + 4 + 8 + 16};
  return settings;
}

// And these if flags that are off are set to false: this also turns off fusion and overlap, which
// are on by default.
const std::set<int>& refused_when_the_rest_is_false() {
  static const std::set<int> settings = {1 + 2 + 8 + 16, 1 + 2 + 4 + 8 + 16};
  return settings;
}

std::string setting(int bits, bool rest_false) {
  std::string out;
  for (size_t i = 0; i < 5; ++i) {
    const bool on = (bits >> i & 1) != 0;
    if (on || rest_false) {
      out += "--" + flags_test::nan_report()[i] + (on ? "=true " : "=false ");
    }
  }
  return out;
}

class NanReport : public ::testing::TestWithParam<bool> {};

TEST_P(NanReport, VerdictIsWhatLibtpuDoesWithAll32Settings) {
  const std::set<int>& refused =
      GetParam() ? refused_when_the_rest_is_false() : refused_when_the_rest_is_unset();
  for (int bits = 0; bits < 32; ++bits) {
    const std::string list = setting(bits, GetParam());
    SCOPED_TRACE(list);
    for (const char* version : {"0.0.51", "0.0.52"}) {
      for (const char* chip : {"v4", "v5p", "v6e", "tpu7x"}) {
        const Effective effective = resolve(on_tpu(chip, list, version));
        EXPECT_EQ(!errors(effective).empty(), refused.contains(bits)) << chip << " " << version;
      }
      EXPECT_THAT(errors(resolve(on_tpu("v5e", list, version))), IsEmpty()) << version;
    }
  }
}

TEST_P(NanReport, VerdictIsTheSameForLibtpuThatWouldRunIt) {
  for (int bits = 0; bits < 32; ++bits) {
    const std::string list = setting(bits, GetParam());
    for (const char* version : {"0.0.30", "0.0.42.1"}) {
      EXPECT_EQ(errors(resolve(on_tpu("v6e", list, version))),
                errors(resolve(on_tpu("v6e", list, "0.0.51"))))
          << list << version;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, NanReport, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "RestFalse" : "RestUnset"; });

// Its five flags form two groups, each of which gave right results alone.
TEST(Guard, RefusesTheNanReportsListByNameAndTakesEachOfItsGroups) {
  constexpr int kFusionGroup = 1 + 2 + 4;
  constexpr int kOverlapGroup = 8 + 16;
  EXPECT_THAT(errors(resolve(on_tpu("v6e:4x4", setting(kFusionGroup + kOverlapGroup, false)))),
              ElementsAre("fused-all-reduce"));
  EXPECT_THAT(errors(resolve(on_tpu("v6e:4x4", setting(kFusionGroup, false)))), IsEmpty());
  EXPECT_THAT(errors(resolve(on_tpu("v6e:4x4", setting(kOverlapGroup, false)))), IsEmpty());
  // Without one flag of the pair the rest is accepted.
  EXPECT_THAT(errors(resolve(on_tpu("v6e:4x4", setting(1 + 4 + kOverlapGroup, false)))), IsEmpty());
  EXPECT_THAT(errors(resolve(on_tpu("v6e:4x4", setting(kFusionGroup + 8, false)))), IsEmpty());
}

TEST(Guard, FixSetsMissingFlags) {
  Effective effective;
  effective.findings = {
      {.severity = Severity::ERROR, .add = {{Variable::XLA_FLAGS, "--xla_a=true"}}},
      {.severity = Severity::ERROR, .add = {{Variable::XLA_FLAGS, "--xla_a=true"}}},
      {.severity = Severity::ERROR, .add = {{Variable::LIBTPU_INIT_ARGS, "--xla_b=true"}}},
      {.severity = Severity::WARNING, .add = {{Variable::XLA_FLAGS, "--xla_c=true"}}}};
  EXPECT_EQ(fixed(read_xla_flags("--xla_d=1"), effective), "--xla_d=1 --xla_a=true");
}

TEST(Guard, TwoFlagsAreEnoughSinceTheOthersAreDefaults) {
  const Effective effective = resolve(on_tpu("v6e:4x4", kPair));
  EXPECT_THAT(errors(effective), ElementsAre("fused-all-reduce"));
  const Finding& found = finding(effective, "fused-all-reduce");
  EXPECT_THAT(found.remedy,
              "remove --xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true from "
              "LIBTPU_INIT_ARGS");
  EXPECT_THAT(found.evidence, HasSubstr("429"));
}

TEST(Guard, AnUnknownChipIsTreatedAsRefusing) {
  Request request = on_tpu("v6e", kPair);
  request.platform.chip.clear();
  EXPECT_THAT(errors(resolve(request)), ElementsAre("fused-all-reduce"));
}

TEST(Guard, SeesAPairThatEnvironmentAndConfigurationMakeTogether) {
  Request request = on_tpu("v5p", "--xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true");
  EXPECT_THAT(errors(resolve(request)), IsEmpty());
  request.given = {{"xla_enable_async_all_reduce", "true", "wan.yml:3"}};
  EXPECT_THAT(errors(resolve(request)), ElementsAre("fused-all-reduce"));
}

TEST(Guard, AConfigurationMayTakeBackWhatTheEnvironmentSets) {
  Request request = on_tpu("v6e", kPair);
  request.given = {{"xla_enable_async_all_reduce", "false", "command line"}};
  EXPECT_THAT(errors(resolve(request)), IsEmpty());
}

TEST(Guard, NamesEveryWordThatSetsTheFlag) {
  const std::string twice =
      std::string(kPair) + " --xla_tpu_enable_async_collective_fusion_fuse_all_reduce=1";
  const Request request = on_tpu("v6e", twice);
  const Effective effective = resolve(request);
  EXPECT_EQ(finding(effective, "fused-all-reduce").drop.size(), 2U);
  EXPECT_EQ(fixed(read_libtpu_init_args(twice), effective), "--xla_enable_async_all_reduce=true");
}

TEST(Guard, RefusesTheTwins) {
  EXPECT_THAT(errors(resolve(on_tpu("v5p",
                                    "--xla_tpu_enable_async_collective_fusion_fuse_all_gather=true "
                                    "--xla_enable_async_all_gather=ENABLED"))),
              ElementsAre("fused-all-gather"));
  EXPECT_THAT(
      errors(resolve(on_tpu("v6e",
                            "--xla_tpu_enable_async_collective_fusion_fuse_reduce_scatter=true "
                            "--xla_enable_async_reduce_scatter_fusion=true"))),
      ElementsAre("fused-reduce-scatter"));
  EXPECT_THAT(errors(resolve(on_tpu("v5p", "--xla_enable_async_all_gather=true"))), IsEmpty())
      << "AUTO of the other flag is not refused";
}

TEST(Guard, FixMakesTheTrainingListOfTheReadmePass) {
  const Effective before = resolve(on_tpu("v5p:2x2x1", flags_test::kReadmeTraining));
  EXPECT_THAT(errors(before), ElementsAre("fused-all-gather"));
  const std::string list = fixed(read_libtpu_init_args(flags_test::kReadmeTraining), before);
  EXPECT_THAT(list, Not(HasSubstr("fuse_all_gather")));
  EXPECT_EQ(read_libtpu_init_args(list).flags.size(), 24U);
  EXPECT_THAT(errors(resolve(on_tpu("v5p:2x2x1", list))), IsEmpty());
}

TEST(Guard, FixMakesTheListOfTheNanReportPass) {
  const std::string all = setting(31, false);
  const std::string list = fixed(read_libtpu_init_args(all), resolve(on_tpu("v6e", all)));
  EXPECT_EQ(read_libtpu_init_args(list).flags.size(), 4U);
  EXPECT_THAT(errors(resolve(on_tpu("v6e", list))), IsEmpty());
}

TEST(Guard, AnAllowedErrorIsNoErrorAndIsNamed) {
  Request request = on_tpu("v6e", kPair);
  request.allow = {"fused-all-reduce"};
  const Effective effective = resolve(request);
  EXPECT_THAT(effective.errors(), IsEmpty());
  EXPECT_THAT(effective.allowed(), ElementsAre("fused-all-reduce"));
  EXPECT_THAT(to_text(finding(effective, "fused-all-reduce")), HasSubstr("allowed"));
}

TEST(Guard, UnsafeRandomBitsAreWrongWhereResultsMustNotDependOnDevices) {
  Request request = on_tpu("v6e", "--xla_tpu_spmd_rng_bit_generator_unsafe=true");
  EXPECT_THAT(errors(resolve(request)), IsEmpty());
  request.deterministic = true;
  EXPECT_THAT(errors(resolve(request)), ElementsAre("unsafe-random"));
}

TEST(Guard, DeterministicOnGpuWantsItsFlags) {
  Request request = in_xla_flags("h100", "");
  request.deterministic = true;
  EXPECT_THAT(ids(resolve(request), Severity::WARNING), ElementsAre("autotuned"));
  request.given = given_flags(find_profile("gpu-deterministic"));
  EXPECT_THAT(ids(resolve(request), Severity::WARNING), IsEmpty());
  request.given.pop_back();
  EXPECT_THAT(ids(resolve(request), Severity::WARNING), ElementsAre("deterministic-triton"));
  // Programs of one GPU have Triton's matmuls off, unless somebody turns them on.
  request.own = {{"xla_gpu_enable_triton_gemm", "false", "programs of one GPU"}};
  EXPECT_THAT(ids(resolve(request), Severity::WARNING), IsEmpty());
  request.xla_flags = "--xla_gpu_enable_triton_gemm=true";
  const Effective asked = resolve(request);
  EXPECT_THAT(ids(asked, Severity::WARNING), ElementsAre("deterministic-triton"));
  EXPECT_EQ(asked.findings.front().remedy,
            "remove --xla_gpu_enable_triton_gemm=true from XLA_FLAGS");
}

TEST(Guard, EqualToTheDefaultIsANoteOnly) {
  const Effective effective =
      resolve(on_tpu("v6e", "--xla_tpu_overlap_compute_collective_tc=true"));
  EXPECT_THAT(errors(effective), IsEmpty());
  EXPECT_THAT(ids(effective, Severity::NOTE), Contains("default-value"));
}

TEST(Guard, DreamersGpuListNamesRemovedFlagsAndReplacements) {
  const Effective effective = resolve(in_xla_flags("h100", flags_test::kDreamerGpu));
  EXPECT_THAT(errors(effective), ElementsAre("removed-flag", "removed-flag"));
  EXPECT_THAT(finding(effective, "removed-flag").what, HasSubstr("triton_softmax_fusion"));
  EXPECT_THAT(ids(effective, Severity::NOTE), Contains("renamed-flag").Times(3));
  const std::string list = fixed(read_xla_flags(flags_test::kDreamerGpu), effective);
  EXPECT_EQ(read_xla_flags(list).flags.size(), 13U);
  EXPECT_THAT(errors(resolve(in_xla_flags("h100", list))), IsEmpty());
}

TEST(Guard, DreamersTpuListIsInTheWrongVariable) {
  const Effective effective = resolve(in_xla_flags("v6e", flags_test::kDreamerTpu));
  const std::vector<std::string> found = errors(effective);
  EXPECT_EQ(std::ranges::count(found, "wrong-variable"), 9);
  EXPECT_EQ(fixed(read_xla_flags(flags_test::kDreamerTpu), effective),
            "--xla_disable_hlo_passes=rematerialization");
}

TEST(Guard, EveryIdIsARule) {
  for (const char* list :
       {kPair, "xla_a=1", "\"--xla_a=1\"", "word", "--xla_a=1 --xla_a=2",
        "--xla_tpu_dvfs_p_state=7 --xla_tpu_scheduler_percent_shared_memory_limit=100"}) {
    for (const Finding& each : resolve(on_tpu("v6e", list)).findings) {
      EXPECT_TRUE(is_rule(each.id)) << each.id;
    }
    for (const Finding& each : resolve(in_xla_flags("h100", list)).findings) {
      EXPECT_TRUE(is_rule(each.id)) << each.id;
    }
  }
  EXPECT_FALSE(is_rule("fused"));
}

}  // namespace
}  // namespace kinema::flags
