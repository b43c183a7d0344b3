// `kinema` has its own malloc for large blocks, and people start programs with another malloc in
// LD_PRELOAD, as images for PyTorch do. Both must serve one process.
#include "cli/run_kinema.h"

namespace kinema::cli_test {
namespace {

class PreloadedMalloc : public KinemaOnCpu, public ::testing::WithParamInterface<const char*> {};

TEST_P(PreloadedMalloc, ServesTheWholeProgram) {
  if (IsSkipped()) return;
  const std::string preload = std::string("LD_PRELOAD=") + GetParam();
  const Outcome first = run({"--version"}, preload);
  if (first.err.find("cannot be preloaded") != std::string::npos) {
    GTEST_SKIP() << GetParam() << " is not installed";
  }
  EXPECT_EQ(first.status, 0) << first.err;
  const Outcome plain = run({"train", "tiny.yml", "run_name=plain"});
  const Outcome preloaded = run({"train", "tiny.yml", "run_name=preloaded"}, preload);
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(preloaded.status, 0) << preloaded.err;
  EXPECT_EQ(losses("preloaded"), losses("plain"));
}

INSTANTIATE_TEST_SUITE_P(Allocators, PreloadedMalloc,
                         ::testing::Values("libjemalloc.so.2", "libtcmalloc_minimal.so.4"));

}  // namespace
}  // namespace kinema::cli_test
