#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kinema/pjrt/client.h"

namespace kinema::pjrt {

/// Path of the CPU plugin; empty if the tests run without one.
inline std::string cpu_plugin() {
  const char* path = std::getenv("KINEMA_PJRT_CPU");
  return path == nullptr ? "" : path;
}

/// A client with this many devices.
inline Client cpu_client(int64_t devices = 1) {
  return Client(Plugin::load(cpu_plugin()), {{"cpu_device_count", devices}});
}

/// Tests that need the CPU plugin; skipped with a reason without one.
class CpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cpu_plugin().empty()) GTEST_SKIP() << "KINEMA_PJRT_CPU names no CPU plugin";
  }
};

}  // namespace kinema::pjrt
