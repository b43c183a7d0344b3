#include "kinema/world/notices.h"

#include <gmock/gmock.h>

namespace kinema::world {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LogLines notices() { return LogLines({"process 0 on a", "process 1 on b", "process 2 on c"}); }

TEST(LogLines, NameTheirProcesses) {
  LogLines all = notices();
  all.received(2, "x");
  all.received(1, "y");
  all.received(1, "x");
  EXPECT_THAT(all.due(0), ElementsAre("[processes 1 and 2] x", "[process 1 on b] y"));
  EXPECT_THAT(all.due(0), IsEmpty());
  all.received(2, "y");  // late
  EXPECT_THAT(all.due(0), IsEmpty());
}

TEST(LogLines, AreNotPrintedIfProcess0PrintsThem) {
  LogLines all = notices();
  all.received(1, "x");
  EXPECT_THAT(all.due(100), IsEmpty());  // it may still reach that point
  all.shown("x");
  EXPECT_THAT(all.due(0), IsEmpty());
  all.received(2, "x");
  EXPECT_THAT(all.due(0), IsEmpty());
}

}  // namespace
}  // namespace kinema::world
