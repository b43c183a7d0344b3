#include "kinema/reports/process_times.h"

#include <gmock/gmock.h>

namespace kinema::reports {
namespace {

using Steps = std::vector<std::vector<double>>;

TEST(ProcessTimes, NameTheSlowestOnAverage) {
  const Steps two = {{0.1, 0.2}, {0.3, 0.4}};
  EXPECT_EQ(slowest_process(two), "process 1 slowest with 0.300 s of its own, the other 0.200 s");
  const Steps three = {{0.1, 0.5, 0.3}};
  EXPECT_EQ(slowest_process(three),
            "process 1 slowest with 0.500 s of its own, the others on average 0.200 s");
}

TEST(ProcessTimes, SayNothingOfOneProcess) {
  EXPECT_EQ(slowest_process({}), "");
  const Steps one = {{}, {0.1}};
  EXPECT_EQ(slowest_process(one), "");
  EXPECT_TRUE(process_seconds(nullptr).empty());
}

TEST(ProcessTimes, CountFromTheLastChangeOfProcesses) {
  const Steps changed = {{9.0, 0.1, 0.1}, {0.2, 0.1}, {}, {0.4, 0.1}};
  EXPECT_EQ(slowest_process(changed),
            "process 0 slowest with 0.300 s of its own, the other 0.100 s");
}

}  // namespace
}  // namespace kinema::reports
