#include <gtest/gtest.h>

#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

// LaProp divides each gradient by its root mean square, however small both are: gradients that are
// nearly zero by cancellation keep few of their digits, so the case holds for the optimized
// program only.
TEST(DreamerTrainCase, MatchesTheReference) {
  const pjrt::Client client = runtime::open_client({});
  expect_all_match(run_cached(kGolden / "dreamer", client, {.filter = "dreamer_cont_train"}));
}

}  // namespace
}  // namespace kinema::verification
