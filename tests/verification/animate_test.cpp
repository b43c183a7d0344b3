#include <gtest/gtest.h>

#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

// Wan 2.2 Animate: its transformer with motion encoder, QR decomposition and face adapters, their
// gradients, and whole pipelines in segments.
TEST(AnimateCases, MatchTheReference) {
  const pjrt::Client client = runtime::open_client({});
  expect_all_match(run_cached(kGolden / "animate", client));
}

}  // namespace
}  // namespace kinema::verification
