#include "kinema/core/errno_text.h"

#include <gmock/gmock.h>

#include <cerrno>

namespace kinema {
namespace {

using ::testing::HasSubstr;

TEST(ErrnoText, HasARemedyForEachLimitOfTheSystem) {
  EXPECT_EQ(errno_text(ENOENT), "No such file or directory");
  EXPECT_THAT(errno_text(ENOSPC), HasSubstr("No space left on device\n  free some space"));
  EXPECT_THAT(errno_text(EFBIG), HasSubstr("File too large\n  "));
  EXPECT_THAT(errno_text(EFBIG), HasSubstr("ulimit -f"));
  EXPECT_THAT(errno_text(EMFILE), HasSubstr("ulimit -n"));
}

TEST(ErrnoText, TakesErrorsOfFiles) {
  EXPECT_EQ(errno_text(std::error_code(EMFILE, std::system_category())), errno_text(EMFILE));
  EXPECT_EQ(errno_text(std::error_code(ENOSPC, std::generic_category())), errno_text(ENOSPC));
}

}  // namespace
}  // namespace kinema
