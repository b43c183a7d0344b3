// Settings of the runtime, tested by their effect on a run.
#include <gmock/gmock.h>

#include <string>

#include "jobs/call_kinema.h"
#include "kinema/io/json.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class SwitchesOfARun : public RunsTest {
 protected:
  Outcome train(std::vector<std::string> words, const std::string& environment = "") {
    words.insert(words.begin(), {"train", "tiny.yml", "max_train_steps=2"});
    return run(words, environment);
  }

  double last_loss() {
    std::ifstream in(folder_ / "out" / "tiny" / "metrics.jsonl");
    std::string last;
    for (std::string line; std::getline(in, line);) {
      last = line;
    }
    return io::Json::parse(last, "metrics").at("learning/loss").as_number();
  }

  /// Names and sizes of a folder's files with this ending.
  std::vector<std::pair<std::string, uintmax_t>> files(const fs::path& folder,
                                                       const std::string& ending) {
    std::vector<std::pair<std::string, uintmax_t>> out;
    if (fs::is_directory(folder_ / folder)) {
      for (const auto& file : fs::recursive_directory_iterator(folder_ / folder)) {
        if (file.path().string().ends_with(ending)) {
          out.emplace_back(file.path().filename(), file.file_size());
        }
      }
    }
    return out;
  }

  static inline const std::string kEchoing =
      "pjrt_plugin=" + std::string(KINEMA_BINARY_DIR) + "/tests/pjrt_fake_echoing.so";
};

TEST_F(SwitchesOfARun, MemoryOptionsReachTheClientOfAGpu) {
  train({"hardware=gpu", kEchoing, "preallocate=false", "memory_fraction=0.5",
         "allocator=cuda_async"})
      .expect_error(
          "options: allocator=text cuda_async memory_fraction=float 0.500000 "
          "preallocate=bool false;");
  train({"hardware=gpu", kEchoing}).expect_error("options:;");
  train({"hardware=gpu", kEchoing, "allocator=heap"}).expect_error("cuda_async");
}

TEST_F(SwitchesOfARun, MemoryOptionsAreNamedWhereNobodyTakesThem) {
  const Outcome outcome = train({"memory_fraction=0.5"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("memory_fraction: only the GPU plugin"));
  EXPECT_THAT(train({"run_name=b"}, "XLA_PYTHON_CLIENT_MEM_FRACTION=.9").err,
              HasSubstr("which only JAX reads: in kinema use memory_fraction="));
}

TEST_F(SwitchesOfARun, MockDevicesStandForThoseThatAreNotHere) {
  const Outcome outcome =
      train({"hardware=tpu", "flags_profile=wan-train-v6e", "mock_devices=4",
             "ici_data_parallelism=2", "ici_fsdp_parallelism=1", "ici_context_parallelism=2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("4 devices of the CPU plugin simulate those of hardware tpu"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("devices: 4, "), HasSubstr("completed step: 2")));
  // The plugin's defaults: the CPU compiler got no flag of the profile.
  const io::Json flags = io::Json::read(folder_ / "out/tiny/flags.json");
  EXPECT_THAT(flags.at("platform").as_string(), HasSubstr("CPU"));
  EXPECT_FALSE(flags.at("flags").contains("xla_tpu_scoped_vmem_limit_kib"));
}

TEST_F(SwitchesOfARun, OptimizationLevelChangesWhatIsCompiled) {
  ASSERT_EQ(train({"executable_cache=fast"}).status, 0);
  ASSERT_EQ(train({"executable_cache=plain", "optimization_level=0", "run_name=b"}).status, 0);
  const auto fast = files("fast", ".executable");
  const auto plain = files("plain", ".executable");
  ASSERT_EQ(fast.size(), plain.size());
  ASSERT_FALSE(fast.empty());
  uintmax_t difference = 0;
  for (const auto& [name, size] : fast) {
    difference += size;
  }
  for (const auto& [name, size] : plain) {
    difference -= size;
  }
  EXPECT_NE(difference, 0U) << "other machine code has another size";
  const io::Json flags = io::Json::read(folder_ / "out/b/flags.json").at("flags");
  EXPECT_EQ(flags.at("xla_backend_optimization_level").at("origin").as_string(),
            "optimization_level");
}

// A cache of programs may be shared by the machines of a mixed cluster: a run with a limited
// instruction set does not use programs that were compiled for more instructions.
TEST_F(SwitchesOfARun, CpuIsaLimitsTheRunAndItsPrograms) {
  const Outcome whole = train({"executable_cache=programs"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  const Outcome limited = train({"executable_cache=programs", "cpu_isa=avx2", "run_name=b"});
  if (limited.status != 0) {
    limited.expect_error("[cpu_isa] avx2 was requested, but the best of this processor is");
    GTEST_SKIP() << "this processor has no AVX2";
  }
  const Outcome again = train({"executable_cache=programs", "cpu_isa=avx2", "run_name=c"});
  EXPECT_THAT(again.out, HasSubstr("(from the cache)"));
  EXPECT_EQ(losses("b"), losses("c"));
  const bool has_more = read_text("/proc/cpuinfo").find("avx512f") != std::string::npos;
  if (has_more) {
    EXPECT_THAT(limited.out, Not(HasSubstr("(from the cache)")));
    const std::string flags = read_text(folder_ / "out/b/flags.json");
    EXPECT_THAT(flags, HasSubstr("xla_cpu_max_isa"));
  }
  train({"cpu_isa=avx3", "run_name=d"}).expect_error("`avx3`");
}

TEST_F(SwitchesOfARun, DeterministicSetsTheFlagsOfGpus) {
  const Outcome outcome = run({"flags", "dump", "target=h100:8", "deterministic=true"});
  EXPECT_THAT(outcome.out, ContainsRegex("xla_gpu_deterministic_ops=true +# deterministic"));
  EXPECT_THAT(run({"flags", "dump", "target=h100:8"}).out,
              ContainsRegex("xla_gpu_deterministic_ops=false +# default"));
  run({"train", "tiny.yml", "hardware=gpu", kEchoing, "deterministic=true",
       "xla_flags.xla_gpu_enable_triton_gemm=true"})
      .expect_error("options:;");
  EXPECT_EQ(run({"flags", "check", "target=v6e:2x2", "deterministic=true",
                 "LIBTPU_INIT_ARGS=--xla_tpu_spmd_rng_bit_generator_unsafe=true"})
                .status,
            1);
}

TEST_F(SwitchesOfARun, ExecutableCacheMayBeOffOnOrAFolder) {
  const std::string here = "KINEMA_CACHE=" + (folder_ / "cache").string();
  ASSERT_EQ(train({"executable_cache=off"}, here).status, 0);
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
  ASSERT_EQ(train({"executable_cache=on", "run_name=b"}, here).status, 0);
  EXPECT_FALSE(files("cache/programs", ".executable").empty());
  const Outcome again = train({"executable_cache=on", "run_name=c"}, here);
  EXPECT_THAT(again.out, HasSubstr("(from the cache)"));
}

TEST_F(SwitchesOfARun, DumpToKeepsTheProgramsBeforeAndAfterTheCompiler) {
  ASSERT_EQ(train({"dump_to=dumped"}).status, 0);
  EXPECT_FALSE(files("dumped", ".mlir").empty());
  EXPECT_FALSE(files("dumped", ".hlo.txt").empty());
}

TEST_F(SwitchesOfARun, WithoutJitBlocksAreProgramsAndTheLossIsTheSame) {
  ASSERT_EQ(train({}).status, 0);
  const double whole = last_loss();
  fs::remove_all(folder_ / "out");
  const Outcome outcome = train({"jit=false", "dump_to=dumped"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  // Operations are fused differently: F32 rounding, after one update.
  EXPECT_NEAR(last_loss(), whole, 1e-4 * whole);
  EXPECT_GT(files("dumped", ".blocks.mlir").size() + files("dumped", ".blocks.0.mlir").size(), 0U);
  train({"jit=false", "cpu_device_count=2", "ici_data_parallelism=2", "run_name=b"})
      .expect_error("jit is false, which runs on one device");
}

TEST_F(SwitchesOfARun, GeneratesTheSameVideoWithoutJit) {
  ASSERT_EQ(train({}).status, 0);
  const std::vector<std::string> words = {"generate", "tiny.yml", "prompt=a", "jit=false"};
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(SwitchesOfARun, AVideosStoryHasTheFlagsThatWereGiven) {
  ASSERT_EQ(train({}).status, 0);
  ASSERT_EQ(run({"generate", "tiny.yml", "prompt=a", "video_folder=videos",
                 "xla_flags.xla_cpu_enable_fast_math=false"},
                "XLA_FLAGS=--xla_allow_excess_precision=false")
                .status,
            0);
  const io::Json flags = io::Json::read(folder_ / "videos/000_a.json").at("flags");
  EXPECT_THAT(flags.at("platform").as_string(), HasSubstr("CPU"));
  const io::Json& given = flags.at("given");
  EXPECT_EQ(given.at("xla_cpu_enable_fast_math").at("origin").as_string(), "command line");
  EXPECT_EQ(given.at("xla_allow_excess_precision").at("origin").as_string(), "XLA_FLAGS");
  EXPECT_EQ(given.members().size(), 2U);
}

TEST_F(SwitchesOfARun, TransferGuardLetsATrainingRunPass) {
  const Outcome outcome = train({"transfer_guard=true", "checkpoint_every=1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(SwitchesOfARun, DebugNansNamesTheOperationOfABadStep) {
  // Weights of 1e30 and more overflow in products.
  const Outcome outcome = train({"debug_nans=true", "learning_rate=1e30", "max_train_steps=3"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("is not finite, first in "),
                                 ContainsRegex(", whose b?f[0-9]+.* is not finite")));
}

TEST_F(SwitchesOfARun, JaxNamesAreAnsweredWithOurs) {
  train({"jax_debug_nans=true"}).expect_error("debug_nans");
  train({"jax_disable_jit=true"}).expect_error("`jit`");
  train({"xla_python_client_mem_fraction=.9"}).expect_error("memory_fraction");
  train({"jax_transfer_guard=disallow"}).expect_error("transfer_guard");
}

}  // namespace
}  // namespace kinema::jobs_test
