#include "kinema/checkpoints/checkpoint_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::checkpoints {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(CheckpointSpace, IsAnErrorIfNoneFitsAndAWarningIfNotAllFit) {
  constexpr int64_t kGiga = 1'000'000'000;
  CheckpointSpace space{.folder = "disk",
                        .bytes = 170 * kGiga,
                        .most = 3,
                        .available = 510 * kGiga,
                        .keep = {.newest = 2}};
  EXPECT_THAT(check_space(space), IsEmpty());
  EXPECT_EQ(describe(space),
            "checkpoints: 170.0 GB each, the newest 2 are kept, 510.0 GB are free");
  space.available -= 1;
  EXPECT_THAT(check_space(space),
              ElementsAre(HasSubstr("170.0 GB each and the newest 2 are kept")));
  space.available = 169 * kGiga;
  EXPECT_THAT(
      [&] { check_space(space); },
      ThrowsMessage<Error>(HasSubstr("a checkpoint takes 170.0 GB, but 169.0 GB are free")));
  space.most = 0;  // none is written
  EXPECT_THAT(check_space(space), IsEmpty());
  EXPECT_EQ(describe(space), "");
}

}  // namespace
}  // namespace kinema::checkpoints
