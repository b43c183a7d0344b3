#include "kinema/world/notices.h"

#include <gmock/gmock.h>

namespace kinema::world {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Notices notices() { return Notices({"process 0 on a", "process 1 on b", "process 2 on c"}); }

TEST(Notices, SayWhoseTheyAre) {
  Notices all = notices();
  all.heard(2, "x");
  all.heard(1, "y");
  all.heard(1, "x");
  EXPECT_THAT(all.due(0), ElementsAre("[processes 1 and 2] x", "[process 1 on b] y"));
  EXPECT_THAT(all.due(0), IsEmpty());
  all.heard(2, "y");  // late
  EXPECT_THAT(all.due(0), IsEmpty());
}

TEST(Notices, AreNotShownWhereTheFirstHasThemToo) {
  Notices all = notices();
  all.heard(1, "x");
  EXPECT_THAT(all.due(100), IsEmpty());  // it may still reach that point
  all.shown("x");
  EXPECT_THAT(all.due(0), IsEmpty());
  all.heard(2, "x");
  EXPECT_THAT(all.due(0), IsEmpty());
}

}  // namespace
}  // namespace kinema::world
