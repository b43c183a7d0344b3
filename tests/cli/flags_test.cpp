// Compiler flags: no list of flags may end a command without an error message of kinema.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "cli/run_kinema.h"
#include "kinema/io/json.h"

namespace kinema::cli_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kPair =
    "--xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true "
    "--xla_enable_async_all_reduce=true";

const std::string kWan = std::string(KINEMA_SOURCE_DIR) + "/configs/wan22_i2v_a14b.yml";

class FlagsCommand : public KinemaTest {};

TEST_F(FlagsCommand, CheckSaysTheSmallestChangeAndEndsWith1) {
  const Outcome outcome = run({"flags", "check", kPair, "target=v6e:4x4"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("error [fused-all-reduce]"),
                                 HasSubstr("remove --xla_tpu_enable_async_collective_fusion_fuse_"
                                           "all_reduce=true from LIBTPU_INIT_ARGS"),
                                 HasSubstr("evidence: MaxDiffusion issue 429")));
  EXPECT_EQ(run({"flags", "check", kPair, "target=v5e:4x4"}).status, 0);
  EXPECT_EQ(run({"flags", "check", kPair, "target=v6e:4x4", "--allow", "fused-all-reduce"}).status,
            0);
}

// Ulysses on v6e-16 with the lists of MaxDiffusion issue 429.
TEST_F(FlagsCommand, CheckRefusesTheNanReportsListByItsRuleAndTakesEachGroup) {
  const std::string fusion =
      "--xla_tpu_enable_async_collective_fusion=true "
      "--xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true "
      "--xla_tpu_enable_async_collective_fusion_multiple_steps=true";
  const std::string overlap =
      "--xla_tpu_overlap_compute_collective_tc=true --xla_enable_async_all_reduce=true";
  const auto check = [&](const std::string& list) {
    return run({"flags", "check", kWan, "attention=ulysses", "ici_context_parallelism=4",
                "ici_tensor_parallelism=4", list, "target=v6e:4x4"});
  };
  const Outcome both = check(fusion + " " + overlap);
  EXPECT_EQ(both.status, 1);
  EXPECT_THAT(both.out, AllOf(HasSubstr("error [fused-all-reduce]"), HasSubstr("1 wrong")));
  for (const std::string& alone : {fusion, overlap}) {
    const Outcome outcome = check(alone);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("nothing is wrong"));
  }
  EXPECT_EQ(run({"flags", "check", kWan, "flags_profile=tpu-v6e-ulysses", "target=v6e:4x4"}).status,
            0);
  // The profile is still rejected after the pair is completed.
  EXPECT_EQ(run({"flags", "check", kWan, "flags_profile=tpu-v6e-ulysses", fusion + " " + overlap,
                 "target=v6e:4x4"})
                .status,
            1);
}

TEST_F(FlagsCommand, FixPrintsTheListWithoutIt) {
  const Outcome outcome = run({"flags", "check", kPair, "target=v6e:4x4", "--fix"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "LIBTPU_INIT_ARGS='--xla_enable_async_all_reduce=true'\n");
}

TEST_F(FlagsCommand, FixWritesFlagsAsTheyWereMeant) {
  EXPECT_EQ(
      run({"flags", "check", "xla_tpu_scoped_vmem_limit_kib=65536", "target=v6e:2x2", "--fix"}).out,
      "LIBTPU_INIT_ARGS='--xla_tpu_scoped_vmem_limit_kib=65536'\n");
  EXPECT_EQ(run({"flags", "check", "XLA_FLAGS=--xla_tpu_enable_async_all_to_all=true",
                 "target=v6e:2x2", "--fix"})
                .out,
            "LIBTPU_INIT_ARGS='--xla_tpu_enable_async_all_to_all=true'\nXLA_FLAGS=''\n");
  EXPECT_EQ(run({"flags", "check", "\"--xla_tpu_scoped_vmem_limit_kib=65536\"", "target=v6e:2x2",
                 "--fix"})
                .out,
            "LIBTPU_INIT_ARGS='--xla_tpu_scoped_vmem_limit_kib=65536'\n");
  // After it is parsed, the list has another error.
  EXPECT_EQ(run({"flags", "check",
                 "xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true "
                 "xla_enable_async_all_reduce=true",
                 "target=v6e:2x2", "--fix"})
                .out,
            "LIBTPU_INIT_ARGS='--xla_enable_async_all_reduce=true'\n");
}

TEST_F(FlagsCommand, CheckTakesTheEnvironmentAndAConfiguration) {
  write("a.yml", "xla_flags: {xla_enable_async_all_reduce: true}\n");
  const std::string half =
      "LIBTPU_INIT_ARGS=--xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true";
  EXPECT_EQ(run({"flags", "check", "target=v6e:4x4"}, half).status, 0);
  const Outcome outcome = run({"flags", "check", "a.yml", "target=v6e:4x4"}, half);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("a.yml:1"));
  EXPECT_EQ(run({"flags", "check", "a.yml", "target=v6e:4x4",
                 "xla_flags.xla_enable_async_all_reduce=false"},
                half)
                .status,
            0);
}

TEST_F(FlagsCommand, DumpPrintsValuesWithOrigins) {
  const Outcome outcome = run({"flags", "dump", "target=v6e:2x2", "flags_profile=wan-train-v6e",
                               "xla_flags.xla_tpu_scoped_vmem_limit_kib=8192"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              ::testing::ContainsRegex("xla_tpu_scoped_vmem_limit_kib=8192 +# command line"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex(
                               "xla_enable_async_all_gather=ENABLED +# profile wan-train-v6e"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex(
                               "xla_tpu_overlap_compute_collective_tc=true +# default of libtpu"));
}

TEST_F(FlagsCommand, ListsAndShowsProfiles) {
  EXPECT_THAT(run({"flags", "list"}).out, HasSubstr("wan-train-tpu7x"));
  const Outcome shown = run({"flags", "show", "dreamerv3-gpu"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("replaces xla_gpu_graph_level=0"), HasSubstr("left out")));
  run({"flags", "show", "dreamer"}).expect_error("dreamerv3-gpu");
}

TEST_F(FlagsCommand, RefusesWrongInputInALineOrTwo) {
  run({"flags"}).expect_error("check, dump, list or show");
  run({"flags", "check", "--xla_a=1", "target=v9"}).expect_error("is not known");
  run({"flags", "dump", "--xla_a=1"}).expect_error("");
  run({"flags", "check", "--allow", "nothing"}).expect_error("there is no rule `nothing`");
  run({"flags", "check", "flags_profile=none"}).expect_error("there is no profile `none`");
  run({"flags", "check", "xla_flags=[1]"}).expect_error("NAME: VALUE");
  run({"flags", "check", "xla_flags={xla_a: [1]}"}).expect_error("xla_flags.xla_a");
}

TEST_F(FlagsCommand, KnowsEveryTargetThatPlanKnows) {
  for (const char* target : {"rtx4090:1", "a100", "b300:8", "gpu"}) {
    SCOPED_TRACE(target);
    EXPECT_EQ(run({"flags", "dump", std::string("target=") + target}).status, 0);
  }
}

class FlagsOfARun : public KinemaOnCpu {};

// Without the check each of these aborts in the plugin: by a signal, or with 15 kB of usage text.
TEST_F(FlagsOfARun, NoXlaFlagsEndACommandWithoutALineOfOurs) {
  for (const char* list :
       {"--nope=1", "nope", "--xla_tpu_enable_async_all_to_all=true",
        "--xla_cpu_enable_fast_math=maybe", "xla_cpu_enable_fast_math=true", "--help",
        "\"--xla_cpu_enable_fast_math=true\"", "-xla_cpu_enable_fast_math=true",
        "--xla_gpu_graph_level=0 --xla_gpu_enable_triton_softmax_fusion=false",
        "--xla_gpu_autotune_level=x", "--=",
        "--xla_cpu_enable_fast_math"
        "=true --nope=1"}) {
    SCOPED_TRACE(list);
    const std::string environment = "XLA_FLAGS=" + quoted(list);
    run({"doctor"}, environment).expect_error("[flags]");
  }
  const std::string unknown = "XLA_FLAGS=--nope=1";
  run({"train", "tiny.yml"}, unknown).expect_error("nope");
  run({"generate", "tiny.yml", "prompt=a"}, unknown).expect_error("nope");
  run({"plan", "tiny.yml", "target=cpu:1"}, unknown).expect_error("nope");
}

TEST_F(FlagsOfARun, AFlagThatOnlyThePluginKnowsIsTaken) {
  // Not in the table, but xla-cpu-pjrt 0.0.1 has it.
  EXPECT_EQ(run({"doctor"}, "XLA_FLAGS=--xla_cpu_enable_xprof_traceme=true").status, 0);
}

TEST_F(FlagsOfARun, TrainingKeepsItsFlagsWithOrigins) {
  const Outcome outcome = run({"train", "tiny.yml", "max_train_steps=1",
                               "xla_flags.xla_cpu_enable_fast_math=false", "flags_profile="},
                              "XLA_FLAGS=--xla_allow_excess_precision=false");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const io::Json json = io::Json::read(folder_ / "out/tiny/flags.json");
  const io::Json& flags = json.at("flags");
  EXPECT_EQ(flags.at("xla_cpu_enable_fast_math").at("origin").as_string(), "command line");
  EXPECT_EQ(flags.at("xla_allow_excess_precision").at("origin").as_string(), "XLA_FLAGS");
  EXPECT_EQ(flags.at("xla_backend_optimization_level").at("origin").as_string(), "default");
}

TEST_F(FlagsOfARun, FlagsReachTheCompiler) {
  // The CPU compiler writes its programs to the flag's folder.
  const Outcome outcome = run({"train", "tiny.yml", "max_train_steps=1", "executable_cache=none",
                               "xla_flags.xla_dump_to=dumped"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / "dumped"));
}

TEST_F(FlagsOfARun, AnAllowedErrorIsNamedInTheFirstStepsLineOnly) {
  const std::vector<std::string> words = {"train", "tiny.yml", "max_train_steps=2",
                                          "xla_flags.xla_gpu_simplify_all_fp_conversions=true"};
  run(words).expect_error("removed-flag");
  // If the error is allowed, the plugin rejects the flag.
  std::vector<std::string> allowed = words;
  allowed.emplace_back("allow_flags=[removed-flag]");
  EXPECT_THAT(run(allowed).err, AllOf(HasSubstr("flags: allowed [removed-flag]"),
                                      HasSubstr("xla_gpu_simplify_all_fp_conversions")));
  // A stray word that XLA ignores may be allowed.
  const Outcome outcome = run({"train", "tiny.yml", "max_train_steps=2", "allow_flags=[no-dashes]"},
                              "XLA_FLAGS='--xla_cpu_enable_fast_math=false xla_dump_to=x'");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const size_t second = outcome.out.find("completed step: 2,");
  ASSERT_NE(second, std::string::npos);
  EXPECT_THAT(outcome.out.substr(0, second), HasSubstr("[flags allowed: no-dashes]"));
  EXPECT_THAT(outcome.out.substr(second), Not(HasSubstr("flags allowed")));
}

}  // namespace
}  // namespace kinema::cli_test
