#include "kinema/config/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Buckets read(const std::string& json) {
  DataConfig config;
  config.buckets.json = json;
  return read_buckets(config);
}

TEST(Buckets, AreSizesInEitherSpelling) {
  using Size = std::array<int64_t, 3>;
  EXPECT_THAT(read("[[81,480,832],[49,832,480]]").sizes,
              ElementsAre(Size{81, 480, 832}, Size{49, 832, 480}));
  EXPECT_THAT(read("[\"81x480x832\",[1,16,16]]").sizes,
              ElementsAre(Size{81, 480, 832}, Size{1, 16, 16}));
  EXPECT_THAT(read("\"81x480x832\"").sizes, ElementsAre(Size{81, 480, 832}));
  EXPECT_THAT(read("[81,480,832]").sizes, ElementsAre(Size{81, 480, 832}));
  EXPECT_TRUE(read("[81,480,832]").on);
}

TEST(Buckets, AreOffUnlessNamedOrAuto) {
  EXPECT_FALSE(read("[]").on);
  EXPECT_FALSE(read("null").on);
  EXPECT_TRUE(read("\"auto\"").on);
  EXPECT_TRUE(read("\"auto\"").sizes.empty());
}

TEST(Buckets, AreRefusedWhereTheyAreNoSizes) {
  for (const char* json :
       {"[[81,480]]", "[[81,480,832,1]]", "[[81,480,0]]", "[[81,480,-832]]", "[[81,480.5,832]]",
        "[\"81x480\"]", "[\"81x480x\"]", "[\"81x480x832x\"]", "[\"81 x 480 x 832\"]", "{}", "7",
        "true", "[81,480]", "[[99999999999,1,1]]", "\"automatic\""}) {
    EXPECT_THAT([&] { read(json); }, ThrowsMessage<Error>(HasSubstr("[config] buckets"))) << json;
  }
  EXPECT_THAT([] { read("[[1,2,3],\"1x2x3\"]"); }, ThrowsMessage<Error>(HasSubstr("twice")));
}

}  // namespace
}  // namespace kinema::config
