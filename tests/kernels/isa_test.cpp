#include "kinema/kernels/cpu/isa.h"

#include <gtest/gtest.h>

#include "arrays.h"
#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::kernels {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Isa, HasAWordForEach) {
  for (const Isa isa : {Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Amx}) {
    EXPECT_EQ(isa_named(isa_name(isa)), isa);
  }
  EXPECT_FALSE(isa_named("avx3").has_value());
  EXPECT_NE(message_of([] {
              runtime::limit_cpu_isa("avx3");
            }).find("[cpu_isa] `avx3` is given, expected"),
            std::string::npos);
}

TEST(Isa, IsTheMachinesWhenNothingLimitsIt) {
  EXPECT_EQ(isa(), machine_isa());
  runtime::limit_cpu_isa("auto");
  EXPECT_FALSE(for_target({.platform = "cpu"}).flags.contains("xla_cpu_max_isa"));
}

TEST(Isa, ThatTheMachineLacksIsRefused) {
  if (machine_isa() == Isa::Amx) {
    GTEST_SKIP() << "this processor lacks none";
  }
  const std::string message = message_of([] { runtime::open_client({.cpu_isa = "amx"}); });
  EXPECT_NE(message.find("[cpu_isa] amx was requested, but the best of this processor is " +
                         std::string(isa_name(machine_isa()))),
            std::string::npos)
      << message;
}

TEST(Isa, CannotChangeOnceKernelsHaveRun) {
  isa();
  EXPECT_NE(
      message_of([] { limit_isa(Isa::Baseline); }).find("use " + std::string(isa_name(isa()))),
      std::string::npos);
  EXPECT_EQ(message_of([] { limit_isa(machine_isa()); }), "");
}

constexpr int kTimes = 4;

/// 64 values whose last bits show whether products were rounded before the addition.
HostArray compiled() {
  const pjrt::Client client = pjrt::cpu_client();
  Graph graph;
  const Tensor x = graph.input({DType::F32, {64}});
  Tensor y = x;
  for (int i = 0; i < kTimes; ++i) {
    y = y * x + x;
  }
  return runtime::Program::compile(client, graph, std::vector{y})
      .run_on_host(std::vector{normal({64}, 1)})[0];
}

/// The same with each product rounded.
HostArray one_by_one() {
  HostArray y = normal({64}, 1);
  for (float& value : y.as<float>()) {
    const float x = value;
    for (int i = 0; i < kTimes; ++i) {
      volatile const float product = value * x;
      value = product + x;
    }
  }
  return y;
}

/// The limit holds for a process, so each is set in a child process.
class LimitedProcess : public pjrt::CpuTest {
 protected:
  void SetUp() override {
    CpuTest::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(LimitedProcess, HasNoMoreForKernelsAndForThePluginsCode) {
  if (machine_isa() < Isa::Avx2) {
    GTEST_SKIP() << "this processor has nothing to be limited";
  }
  EXPECT_EXIT(
      {
        limit_isa(Isa::Baseline);
        const bool kernels = isa() == Isa::Baseline && !has_fast_product(DType::F32) &&
                             !has_fast_product(DType::BF16);
        const auto flags = for_target({.platform = "cpu"}).flags;
        const bool flag = flags.contains("xla_cpu_max_isa");
        // Without AVX2 there are no fused multiply-adds.
        const bool code = compiled().bytes == one_by_one().bytes;
        std::exit(kernels && flag && code ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_NE(compiled().bytes, one_by_one().bytes) << "nothing shows what the plugin's code uses";
}

}  // namespace
}  // namespace kinema::kernels
