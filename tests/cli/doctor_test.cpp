#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>

#include "cli/run_kinema.h"

/// The output of `kinema doctor` about NVIDIA's libraries, in a cache with empty files for them.
namespace kinema::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Doctor : public KinemaOnCpu {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    put("jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  }

  void put(const std::string& path) { write("cache/jax-cuda13-pjrt-0.12.0.1/" + path, ""); }

  Outcome doctor(const std::string& environment = "") {
    return run({"doctor"},
               "KINEMA_CACHE=" + quoted((folder_ / "cache").string()) + " " + environment);
  }
};

TEST_F(Doctor, ReportsEachLibrarysPathAndMissingOnes) {
  put("nvidia/cu13/lib/libcublas.so.13");
  put("nvidia/cu13/lib/libnvJitLink.so.13");
  put("nvidia/cu13/nvvm/libdevice/libdevice.10.bc");

  const Outcome outcome = doctor();

  EXPECT_EQ(outcome.status, 0) << "a run on the CPU misses nothing\n" << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("13 of 13 wheels are missing: kinema doctor --install cuda"),
                    ContainsRegex("cuBLAS +/.*/nvidia/cu13/lib/libcublas.so.13\n"),
                    ContainsRegex("to plan +nothing is missing\n")));
}

// Libraries outside of the cache are the machine's; all missing ones must be named at the end.
TEST_F(Doctor, NamesEveryMissingPart) {
  const Outcome outcome = doctor();

  const size_t verdict = outcome.out.find("  to run");
  ASSERT_NE(verdict, std::string::npos) << outcome.out;
  for (const std::string name : {"nvJitLink", "libdevice", "cuBLAS", "cuDNN", "NCCL", "CUPTI"}) {
    const size_t line = outcome.out.find("  " + name + " ");
    ASSERT_NE(line, std::string::npos) << outcome.out;
    const size_t text = outcome.out.find_first_not_of(' ', line + 2 + name.size());
    const bool missing = outcome.out.compare(text, 5, "none:") == 0;
    EXPECT_EQ(outcome.out.find(name, verdict) != std::string::npos, missing) << outcome.out;
  }
}

TEST_F(Doctor, AsksTheDriverForItsGpus) {
  const Outcome outcome =
      doctor("LD_LIBRARY_PATH=" + quoted(std::string(KINEMA_BINARY_DIR) + "/tests/fake_cuda"));

  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("driver +/.*/libcuda.so.1: it sees no GPU"),
                                 HasSubstr("missing: a GPU for its driver")));
}

TEST_F(Doctor, ReportsASingleProcess) {
  EXPECT_THAT(doctor().out, ContainsRegex("processes +one process: no launcher\n"));
}

class DoctorOfSeveral : public Doctor {
 protected:
  void SetUp() override {
    Doctor::SetUp();
    if (!IsSkipped() && (!std::filesystem::exists(KINEMA_BINARY_DIR "/kinema_mpi.so") ||
                         std::system("command -v mpirun >/dev/null") != 0)) {
      GTEST_SKIP() << "no mpirun, or this build has no module for it";
    }
  }
  std::string launcher() const { return "mpirun --allow-run-as-root --oversubscribe -np 3"; }
};

TEST_F(DoctorOfSeveral, PrintsTheProcessesOnce) {
  const Outcome outcome = doctor(launcher());

  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(ContainsRegex("processes +3 processes on 1 host, by mpirun "
                                  "\\(OMPI_COMM_WORLD_RANK\\), Open MPI .*; this is process 0\n"),
                    ContainsRegex("devices +3\n")));
  EXPECT_EQ(outcome.out.find("processes  "), outcome.out.rfind("processes  ")) << outcome.out;
}

// One process has another plugin than the others.
TEST_F(DoctorOfSeveral, NamesTheProcessWithTheProblem) {
  write("of_rank.sh",
        "[ $OMPI_COMM_WORLD_RANK != 2 ] || export KINEMA_PJRT_PLUGIN=/nowhere.so\nexec \"$@\"\n");
  const Outcome outcome = doctor(launcher() + " sh of_rank.sh");

  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("\\[process 2 on .*\\] .*no plugin at `/nowhere.so`"));
}

TEST_F(Doctor, KnowsTheHostsOfATpu) {
  const std::string meet =
      fmt::format("coordinator_address=127.0.0.1:{}", 20000 + getpid() % 10000);
  const auto environment = [&](const std::string& number) {
    return "KINEMA_PJRT_PLUGIN= KINEMA_CACHE=" + quoted((folder_ / "cache").string()) +
           " TPU_WORKER_HOSTNAMES=a,b TPU_WORKER_ID=" + number;
  };
  const std::filesystem::path said = folder_ / "second.out";
  const std::string second =
      environment("1") + " " + quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
      " doctor hardware=tpu " + meet + " >" + quoted(said.string()) + " 2>/dev/null </dev/null";
  auto other = std::async(std::launch::async, [&] { return std::system(second.c_str()); });
  const Outcome first = run({"doctor", "hardware=tpu", meet}, environment("0"));
  EXPECT_EQ(first.status, 1);
  EXPECT_THAT(first.out, ContainsRegex("processes +2 processes on 1 host, by the TPU's environment "
                                       "\\(TPU_WORKER_ID\\), ZeroMQ [0-9.]+; this is process 0"));
  EXPECT_THAT(first.out, HasSubstr("no plugin for hardware `tpu`"));
  EXPECT_EQ(WEXITSTATUS(other.get()), 1);
  EXPECT_EQ(read_text(said), "");
  run({"doctor", "hardware=tpu"}, environment("2"))
      .expect_error("TPU_WORKER_ID=2, but TPU_WORKER_HOSTNAMES names 2 hosts");
}

}  // namespace
}  // namespace kinema::cli_test
