// Run by mpirun, as three processes.
#include "kinema/world/consistency.h"

#include <gmock/gmock.h>

#include "kinema/core/error.h"
#include "world/test_world.h"

namespace kinema::world {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string error_of(const StartRecord& own) {
  try {
    check_consistent(test_world(), own, "a test");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ConsistencyCheck, AcceptsEqualRecords) {
  EXPECT_EQ(error_of({{"learning_rate", "0.1"}, {"seed", "0"}}), "");
  EXPECT_EQ(error_of({}), "");
}

TEST(ConsistencyCheck, NamesFieldValuesAndTheProcessThatDiffers) {
  const bool odd = test_world().rank() == 2;
  EXPECT_THAT(error_of({{"learning_rate", odd ? "1e-05" : "0.0001"}, {"seed", "0"}}),
              AllOf(HasSubstr("learning_rate is 1e-05 on process 2 on "),
                    HasSubstr("0.0001 on processes 0 and 1"), Not(HasSubstr("seed"))));
}

TEST(ConsistencyCheck, ShowsWhereLongValuesBeginToDiffer) {
  const bool odd = test_world().rank() == 2;
  const std::string folder(100, 'x');
  const std::string error =
      error_of({{"train_data_dir", folder + (odd ? "/clips" : "/\u00e9t\u00e9") + folder}});
  EXPECT_THAT(error, AllOf(HasSubstr("xxx/clipsxxx"), HasSubstr("xxx/\u00e9t\u00e9xxx")));
  EXPECT_LT(error.size(), 400U);
}

TEST(ConsistencyCheck, ReportsTheFirstFieldsFirst) {
  const std::string rank = std::to_string(test_world().rank());
  const std::string error = error_of({{"samples", rank}, {"a sample", rank}});
  EXPECT_LT(error.find("samples is"), error.find("a sample is"));
}

TEST(ConsistencyCheck, NamesFieldsMissingInOneProcess) {
  StartRecord own{{"data", "12 clips"}};
  if (test_world().is_first()) {
    own.clear();
  }
  EXPECT_THAT(error_of(own), AllOf(HasSubstr("data is nothing on process 0 on "),
                                   HasSubstr("12 clips on processes 1 and 2")));
}

TEST(ConsistencyCheck, CountsDifferencesBeyondTheLimit) {
  StartRecord own;
  for (int i = 0; i < 9; ++i) {
    own.emplace_back(fmt::format("key{}", i), std::to_string(test_world().rank()));
  }
  EXPECT_THAT(error_of(own), AllOf(HasSubstr("key0 is 1 on process 1"), HasSubstr("and 5 more")));
}

}  // namespace
}  // namespace kinema::world
