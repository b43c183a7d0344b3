#include "kinema/remote/partial_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "kinema/core/error.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

auto open_descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

// /proc/self/mem opens and locks as files do, and nothing can be read at its beginning: what a
// failing disk looks like.
TEST(PartialFile, KeepsNeitherDescriptorNorLockWhereWhatIsThereCannotBeRead) {
  const auto before = open_descriptors();

  EXPECT_THROW(PartialFile("/proc/self/mem", {.what = "a file"}), Error);

  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace kinema::remote
