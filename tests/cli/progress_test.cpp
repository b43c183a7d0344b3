#include "kinema/cli/progress.h"

#include <gmock/gmock.h>

namespace kinema::cli {
namespace {

TEST(ProgressBar, ShowsShareCountAndTimeLeft) {
  EXPECT_EQ(Progress::bar("train", 5, 10, 65, 60),
            "train  [==============>             ]   50%  5/10  1:05 left");
  EXPECT_EQ(Progress::bar("train", 10, 10, std::nullopt, 60).substr(0, 12), "train  [====");
}

TEST(ProgressBar, ShowsANoteWhereThereIsRoom) {
  EXPECT_THAT(Progress::bar("train", 5, 10, 65, 79, "loss 0.842"),
              testing::EndsWith("5/10  1:05 left  loss 0.842"));
  EXPECT_THAT(Progress::bar("train", 5, 10, 65, 40, "loss 0.842"),
              testing::EndsWith("5/10  1:05 left"));
}

TEST(ProgressBar, FitsIntoNarrowTerminals) {
  for (const int columns : {0, 5, 20, 40, 200}) {
    EXPECT_LE(Progress::bar("sampling", 3, 50, 4000, columns).size(), static_cast<size_t>(columns));
  }
}

}  // namespace
}  // namespace kinema::cli
