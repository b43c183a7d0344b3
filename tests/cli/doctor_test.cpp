#include <gmock/gmock.h>

#include "cli/run_kinema.h"

/// What `kinema doctor` says of NVIDIA's libraries, in a cache with empty files for them.
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

TEST_F(Doctor, SaysWhereEachLibraryIsAndWhatIsMissing) {
  put("nvidia/cu13/lib/libcublas.so.13");
  put("nvidia/cu13/lib/libnvJitLink.so.13");
  put("nvidia/cu13/nvvm/libdevice/libdevice.10.bc");

  const Outcome outcome = doctor();

  EXPECT_EQ(outcome.status, 0) << "a run on the CPU misses nothing\n" << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("13 of 13 wheels are not there: kinema doctor --install cuda"),
                    ContainsRegex("cuBLAS +/.*/nvidia/cu13/lib/libcublas.so.13\n"),
                    ContainsRegex("to plan +nothing is missing\n")));
}

// What is found outside of the cache is the machine's; what is not must be named at the end.
TEST_F(Doctor, NamesEveryPartThatARunWouldMiss) {
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

}  // namespace
}  // namespace kinema::cli_test
