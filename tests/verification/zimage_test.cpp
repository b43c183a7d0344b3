#include <gtest/gtest.h>

#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

// Z-Image's transformer with captions and images of several sizes, its gradients, Qwen3 and its
// tokenizer, schedules, whole pipelines, LoRA files, training, and single files.
TEST(ZImageCases, MatchTheReference) {
  const pjrt::Client client = runtime::open_client({});
  expect_all_match(run_cached(kGolden / "zimage", client, {.skip = {kFloat8Cases}}));
}

}  // namespace
}  // namespace kinema::verification
