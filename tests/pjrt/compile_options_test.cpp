#include "kinema/pjrt/compile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::pjrt {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Bytes in protobuf's wire format, written by hand from XLA's field numbers: tag = field << 3 |
// kind.
TEST(CompileOptions, WritesXlasFieldNumbers) {
  const CompileOptions options{.replicas = 1, .partitions = 2};

  const std::string build =
      "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  // 1 device_ordinal = -1
      "\x20\x01"                                      // 4 num_replicas = 1
      "\x28\x02"                                      // 5 num_partitions = 2
      "\x30\x01"                                      // 6 use_spmd_partitioning
      "\x98\x01\x01";                                 // 19 use_shardy_partitioner
  EXPECT_EQ(options.serialize(), "\x1a" + std::string(1, static_cast<char>(build.size())) + build);
}

TEST(CompileOptions, WritesFlagsInTheOrderOfTheirNames) {
  CompileOptions options;
  options.flags = {{"b", true}, {"a", int64_t{3}}, {"c", std::string("x")}, {"d", 0.5}};

  const std::string bytes = options.serialize();

  const std::string flags =
      "\x3a\x07\x0a\x01"
      "a\x12\x02\x18\x03"
      "\x3a\x07\x0a\x01"
      "b\x12\x02\x10\x01"
      "\x3a\x08\x0a\x01"
      "c\x12\x03\x0a\x01x"
      "\x3a\x0e\x0a\x01"
      "d\x12\x09\x21" +
      std::string("\x00\x00\x00\x00\x00\x00\xe0\x3f", 8);
  EXPECT_THAT(bytes, HasSubstr(flags));
}

TEST(CompileOptions, RequestShardyForSeveralPartitions) {
  const std::string field = "\x98\x01\x01";  // 19
  EXPECT_THAT(CompileOptions{}.serialize(), ::testing::Not(HasSubstr(field)));
  EXPECT_THAT((CompileOptions{.partitions = 2}).serialize(), HasSubstr(field));
  EXPECT_THAT((CompileOptions{.partitions = 2, .shardy = false}).serialize(),
              ::testing::Not(HasSubstr(field)));
}

TEST(CompileOptions, WritesLevelAndEffort) {
  const std::string bytes =
      CompileOptions{.optimization_level = 2, .optimization_effort = 0.5}.serialize();
  EXPECT_THAT(bytes, HasSubstr(std::string("\xa5\x01\x00\x00\x00\x3f"  // 20, a 32-bit float
                                           "\xc0\x01\x1d",             // 24: O2 is 29
                                           9)));
  EXPECT_THAT([] { (CompileOptions{.optimization_level = 4}).serialize(); },
              ThrowsMessage<Error>(HasSubstr("levels are 0 to 3")));
  EXPECT_THAT([] { (CompileOptions{.optimization_effort = -2}).serialize(); },
              ThrowsMessage<Error>(HasSubstr("efforts -1 to 1")));
}

TEST(CompileOptions, RefusesAnAssignmentOfAnotherSize) {
  EXPECT_THAT(
      [] {
        (CompileOptions{.partitions = 4, .device_ids = {0, 1}}).serialize();
      },
      ThrowsMessage<Error>("[compile] 2 device ids for 1 replicas x 4 partitions"));
  EXPECT_THAT([] { (CompileOptions{.replicas = 0}).serialize(); },
              ThrowsMessage<Error>(HasSubstr("both are at least 1")));
}

}  // namespace
}  // namespace kinema::pjrt
