#include <gmock/gmock.h>

#include "kinema/world/world.h"

namespace kinema::world {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Alone, IsProcessZeroOfOne) {
  World world;
  EXPECT_TRUE(world.is_alone());
  EXPECT_TRUE(world.is_first());
  EXPECT_EQ(world.engine(), nullptr);
  EXPECT_THAT(world.text(), HasSubstr("one process"));
}

TEST(Alone, CommunicatesWithItself) {
  World world;
  EXPECT_THAT(world.communicator().gather("a", {.what = "a test"}), ElementsAre("a"));
  EXPECT_EQ(world.communicator().broadcast("b", {.what = "a test"}), "b");
  world.communicator().barrier({.what = "a test"});
}

TEST(Ranks, AreNamed) {
  EXPECT_EQ(ranks_text({3}), "process 3");
  EXPECT_EQ(ranks_text({1, 2}), "processes 1 and 2");
  EXPECT_EQ(ranks_text({1, 2, 5}), "processes 1, 2 and 5");
  EXPECT_EQ(ranks_text({1, 2, 3, 4}), "processes 1 to 4");
}

}  // namespace
}  // namespace kinema::world
