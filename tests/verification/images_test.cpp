#include <gtest/gtest.h>

#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

const pjrt::Client& client() {
  static const pjrt::Client opened = runtime::open_client({});
  return opened;
}

TEST(Images, EveryValueInsideTheUNetMatchesTheReference) {
  expect_all_match(run_cached(kGolden, client(), {.filter = kUnetCases, .scan_on = false}));
}

TEST(Images, GradientsOfScannedTransformersInTheUNetMatchTheReference) {
  expect_all_match(run_cached(kGolden, client(), {.filter = "sdxl_unet_grad", .scan_off = false}));
}

}  // namespace
}  // namespace kinema::verification
