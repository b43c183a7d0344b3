#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "kinema/verification/verify.h"

namespace kinema::verification {

inline const std::filesystem::path kGolden =
    std::filesystem::path(KINEMA_SOURCE_DIR) / "tests/golden";

/// In the names of the cases of Stable Diffusion XL's UNet, whose programs take longest to compile.
inline const char* const kUnetCases = "sdxl_unet";

/// In the names of the cases with float8, which need XLA's newer fusion emitters.
inline const char* const kFloat8Cases = "fp8";

/// `run` with the compiled programs of this module's tests, which are found by content: many cases
/// run the same model.
inline Report run_cached(const std::filesystem::path& folder, const pjrt::Client& client,
                         Options options = {}) {
  options.program.executable_cache =
      (std::filesystem::path(testing::TempDir()) / "kinema_verification_programs").string();
  return run(folder, client, options);
}

/// Every row passes and none is unsupported: a tap or case without code is a failure here, while
/// `kinema verify` skips it.
inline void expect_all_match(const Report& report) {
  Report wrong = report;
  std::erase_if(wrong.rows, [](const Row& row) { return row.ok && !row.unsupported; });
  EXPECT_FALSE(report.rows.empty());
  EXPECT_TRUE(wrong.rows.empty()) << to_table(wrong);
}

}  // namespace kinema::verification
