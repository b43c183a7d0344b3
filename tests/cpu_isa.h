#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kinema/kernels/cpu/isa.h"
#include "kinema/runtime/client.h"

/// `KINEMA_CPU_ISA=avx2 ./dev test -L golden`: a test that includes this runs with at most that
/// instruction set, as `kinema` does; it is skipped if the processor lacks it.
namespace kinema {

class LimitedIsa : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* named = std::getenv("KINEMA_CPU_ISA");
    const std::string isa = named == nullptr ? "auto" : named;
    const auto wanted = kernels::isa_named(isa);
    if (wanted && *wanted > kernels::machine_isa()) {
      GTEST_SKIP() << "this processor has no " << isa;
    }
    runtime::limit_cpu_isa(isa);
  }
};

inline ::testing::Environment* const kLimitedIsa =
    ::testing::AddGlobalTestEnvironment(new LimitedIsa);

}  // namespace kinema
