#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "kinema/runtime/client.h"
#include "kinema/verification/verify.h"

namespace kinema::verification {
namespace {

namespace fs = std::filesystem;

/// Runs the cases of tests/golden that contain `filter` in the forms asked for.
void expect_matches(const std::string& filter, bool scan_on, bool scan_off) {
  static pjrt::Client client = runtime::open_client({});
  const Report report = run(fs::path(KINEMA_SOURCE_DIR) / "tests/golden", client,
                            {.filter = filter, .scan_on = scan_on, .scan_off = scan_off});
  EXPECT_TRUE(report.ok()) << to_table(report);
}

TEST(Images, EveryValueInsideTheUNetMatchesTheReference) {
  expect_matches("sdxl_unet", false, true);
}

TEST(Images, GradientsOfScannedTransformersInTheUNetMatchTheReference) {
  expect_matches("sdxl_unet_grad", true, false);
}

}  // namespace
}  // namespace kinema::verification
