#include "kinema/remote/partial_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "io/failing_writes.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

auto open_descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

// /proc/self/mem can be opened and locked like a file, but reading its beginning fails, as on a
// failing disk.
TEST(PartialFile, KeepsNeitherDescriptorNorLockWhereWhatIsThereCannotBeRead) {
  const auto before = open_descriptors();

  EXPECT_THROW(PartialFile("/proc/self/mem", {.what = "a file"}), Error);

  EXPECT_EQ(open_descriptors(), before);
}

TEST(PartialFile, GoesOnAfterInterruptionsAndFailsWhereNothingCanBeWritten) {
  const io::Scratch folder;
  const std::string text = "some bytes";
  const auto bytes = std::as_bytes(std::span(text));
  PartialFile file(folder / "f", {.what = "a file"});
  {
    const io::FailingWrites failing(3, 0);
    file.append(bytes);
  }
  {
    const io::FailingWrites failing(0, 1000000);
    EXPECT_THAT([&] { file.append(bytes); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("No space left")));
  }
  EXPECT_EQ(io::read_text(folder / "f", 100), text);
}

}  // namespace
}  // namespace kinema::remote
