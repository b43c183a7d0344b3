#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "pjrt/cpu_plugin.h"

namespace kinema::pjrt {
namespace {

using testing::ElementsAre;

constexpr char kAddOne[] = R"(module @add_one {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<3xf32>
    %y = stablehlo.add %x, %one : tensor<3xf32>
    return %y : tensor<3xf32>
  }
})";

HostArray three(float a, float b, float c) {
  return HostArray::f32({3}, std::array<float, 3>{a, b, c});
}

std::vector<float> values(const HostArray& x) {
  const auto view = x.as<float>();
  return {view.begin(), view.end()};
}

using Execute = CpuTest;

TEST_F(Execute, RunsAProgramOnHostValues) {
  const Client client = cpu_client();
  const Executable add_one = client.compile(kAddOne);

  const Buffer x = client.to_device(three(1, 2, 3));
  const Buffer* arguments[] = {&x};
  const std::vector<Buffer> results = add_one.execute(arguments);

  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].shape(), (Shape{DType::F32, {3}}));
  EXPECT_THAT(values(results[0].to_host()), ElementsAre(2, 3, 4));
}

}  // namespace
}  // namespace kinema::pjrt
