#include <gtest/gtest.h>

#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

// Image to image, inpainting and video to video of whole pipelines; VACE; UNets of Stable Diffusion
// 1 and 2.
TEST(ControlCases, MatchTheReference) {
  const pjrt::Client client = runtime::open_client({});
  expect_all_match(run_cached(kGolden / "control", client));
}

}  // namespace
}  // namespace kinema::verification
