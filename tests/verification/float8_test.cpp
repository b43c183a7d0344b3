#include <gtest/gtest.h>

#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

TEST(Float8, EveryCaseMatchesTheReference) {
  const pjrt::Client client = runtime::open_client({});
  expect_all_match(run_cached(kGolden, client, {.filter = kFloat8Cases, .scan_off = false}));
}

}  // namespace
}  // namespace kinema::verification
