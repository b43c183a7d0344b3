#include "kinema/io/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace kinema::io {
namespace {

namespace fs = std::filesystem;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Descriptor, IsClosedByItsOwner) {
  int fd = -1;
  {
    const Descriptor file = Descriptor::open("/dev/null", O_RDONLY);
    fd = file.get();
    ASSERT_TRUE(file);
    EXPECT_TRUE(is_open(fd));
    EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, MoveAssignmentClosesThePreviousFile) {
  Descriptor first = Descriptor::open("/dev/null", O_RDONLY);
  Descriptor second = Descriptor::open("/dev/zero", O_RDONLY);
  const int kept = first.get();
  const int closed = second.get();

  second = std::move(first);

  EXPECT_EQ(second.get(), kept);
  EXPECT_TRUE(is_open(kept));
  EXPECT_FALSE(is_open(closed));
}

TEST(Descriptor, SetsErrnoOnFailure) {
  EXPECT_FALSE(Descriptor::open("/no/such/file", O_RDONLY));
  EXPECT_EQ(errno, ENOENT);
}

TEST(DescriptorLock, IsExclusiveAndReleasedWithItsDescriptor) {
  const fs::path path = fs::path(testing::TempDir()) / "kinema_descriptor_lock";
  Descriptor first = Descriptor::open(path, O_RDWR | O_CREAT, 0600);
  const Descriptor second = Descriptor::open(path, O_RDWR);

  ASSERT_TRUE(lock(first, Lock::TRY));
  EXPECT_FALSE(lock(second, Lock::TRY));
  EXPECT_EQ(errno, EWOULDBLOCK);
  first.close();
  EXPECT_TRUE(lock(second, Lock::TRY));
  fs::remove(path);
}

}  // namespace
}  // namespace kinema::io
