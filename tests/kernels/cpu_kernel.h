#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "arrays.h"
#include "cpu_isa.h"
#include "kinema/graph/emit.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/lowering.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

/// Shared by the tests of the CPU kernels.
namespace kinema::kernels {

inline const pjrt::Client& client() {
  static const pjrt::Client opened = [] {
    pjrt::Client made = pjrt::cpu_client();
    for_target({.platform = "cpu"}).register_with(made.plugin());
    return made;
  }();
  return opened;
}

inline HostArray normal(DType dtype, Dims dims, uint64_t seed) {
  return convert(kinema::normal(std::move(dims), seed), dtype);
}

/// Emit options that use kernels above the thresholds in `limits`.
inline EmitOptions with_kernels(const CpuLoweringOptions& limits) {
  EmitOptions options;
  options.lowering = cpu_lowering(limits);
  return options;
}

/// A test for each dtype with fast products on this processor.
class CpuKernel : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!has_fast_product(GetParam())) {
      GTEST_SKIP() << "this processor has no fast product of " << to_string(GetParam());
    }
  }
};

/// Runs tasks as the plugin does, on this number of threads.
inline auto on_threads(int64_t threads) {
  return [threads](int64_t count, const std::function<void(int64_t)>& task) {
    std::vector<std::jthread> helpers;
    for (int64_t t = 0; t < threads; ++t) {
      helpers.emplace_back([&, t] {
        for (int64_t i = t; i < count; i += threads) task(i);
      });
    }
  };
}

inline std::string name_of(const ::testing::TestParamInfo<DType>& info) {
  return std::string(to_string(info.param));
}

}  // namespace kinema::kernels
