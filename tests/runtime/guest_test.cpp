// A program that only links the runtime keeps its process's malloc.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kinema/io/mapped_file.h"
#include "kinema/runtime/client.h"
#include "runtime/cpu_client.h"
#include "sanitizers.h"

namespace kinema::runtime {
namespace {

using GuestTest = CpuClientTest;

/// The file that defines a function of this process.
std::string origin_of(const char* function) {
  Dl_info info{};
  return dladdr(dlsym(RTLD_DEFAULT, function), &info) != 0 ? info.dli_fname : "";
}

TEST_F(GuestTest, AnOpenClientLeavesTheHostsMallocAlone) {
#ifdef KINEMA_UNDER_SANITIZER
  GTEST_SKIP() << "the sanitizer replaces malloc";
#endif
  // This program links tcmalloc itself (tests/CMakeLists.txt), which has no malloc_trim.
  const std::string libc = origin_of("getenv");
  const std::string host = origin_of("tc_malloc");
  ASSERT_NE(host, "");
  for (const char* function : {"malloc", "calloc", "realloc", "free", "aligned_alloc", "memalign",
                               "posix_memalign", "malloc_usable_size", "malloc_trim"}) {
    EXPECT_EQ(origin_of(function), std::string(function) == "malloc_trim" ? libc : host)
        << function;
  }
}

TEST_F(GuestTest, AnOpenClientLeavesSignalsAndEnvironmentAlone) {
  const auto handlers = [] {
    std::vector<void (*)(int)> out;
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction found {};
      out.push_back(sigaction(signal, nullptr, &found) == 0 ? found.sa_handler : nullptr);
    }
    return out;
  };
  const auto variables = [] {
    std::vector<std::string> out;
    for (char** each = environ; *each != nullptr; ++each) {
      out.emplace_back(*each);
    }
    return out;
  };
  const auto handlers_before = handlers();
  const auto variables_before = variables();

  const pjrt::Client client = open_client({.cpu_devices = 2});
  const io::MappedFile file = io::MappedFile::open("/proc/self/exe");

  EXPECT_EQ(handlers(), handlers_before);
  EXPECT_EQ(variables(), variables_before);
}

// When only half of malloc's family was replaced, this read memory before the block.
TEST_F(GuestTest, LargeAlignedBlocksHaveAUsableSize) {
  constexpr size_t kSize = size_t{3} << 20;
  void* block = aligned_alloc(64, kSize);
  ASSERT_NE(block, nullptr);

  EXPECT_GE(malloc_usable_size(block), kSize);
  free(block);
}

}  // namespace
}  // namespace kinema::runtime
