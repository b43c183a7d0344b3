// A program that links the runtime without asking for more keeps its process's malloc.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <string>

#include "runtime/cpu_client.h"

namespace kinema::runtime {
namespace {

using GuestTest = CpuClientTest;

/// The file that a function of this process comes from.
std::string origin_of(const char* function) {
  Dl_info info{};
  return dladdr(dlsym(RTLD_DEFAULT, function), &info) != 0 ? info.dli_fname : "";
}

TEST_F(GuestTest, AnOpenClientLeavesTheHostsMallocAlone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's malloc stands here";
#endif
  const std::string libc = origin_of("getenv");
  for (const char* function : {"malloc", "calloc", "realloc", "free", "aligned_alloc", "memalign",
                               "posix_memalign", "malloc_usable_size", "malloc_trim"}) {
    EXPECT_EQ(origin_of(function), libc) << function;
  }
}

// Half of malloc's family was once replaced, and this read what lies before the block.
TEST_F(GuestTest, LargeAlignedBlocksHaveAUsableSize) {
  constexpr size_t kSize = size_t{3} << 20;
  void* block = aligned_alloc(64, kSize);
  ASSERT_NE(block, nullptr);

  EXPECT_GE(malloc_usable_size(block), kSize);
  free(block);
}

}  // namespace
}  // namespace kinema::runtime
