#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xla/ffi/api/ffi.h>

#include <array>
#include <vector>

#include "kinema/core/error.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
namespace ffi = xla::ffi;

constexpr char kScale[] = R"(module @scale {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %y = stablehlo.custom_call @kinema.test.scale(%x)
        {api_version = 4 : i32, backend_config = {factor = 2.5 : f32}}
        : (tensor<3xf32>) -> tensor<3xf32>
    return %y : tensor<3xf32>
  }
})";

ffi::Error scale(float factor, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (factor < 0) return ffi::Error::InvalidArgument("the factor is negative");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kScaleHandler, scale,
                       ffi::Ffi::Bind()
                           .Attr<float>("factor")
                           .Arg<ffi::Buffer<ffi::F32>>()
                           .Ret<ffi::Buffer<ffi::F32>>());

using Ffi = CpuTest;

std::vector<float> run_scale(const std::string& program) {
  const Client client = cpu_client();
  client.plugin().register_ffi_handler("kinema.test.scale", reinterpret_cast<void*>(kScaleHandler));
  const Executable executable = client.compile(program);
  const Buffer x = client.to_device(HostArray::f32({3}, std::array<float, 3>{1, 2, 4}));
  const Buffer* arguments[] = {&x};
  const HostArray y = executable.execute(arguments)[0].to_host();
  return {y.as<float>().begin(), y.as<float>().end()};
}

TEST_F(Ffi, CallsAHandlerOfOurs) { EXPECT_THAT(run_scale(kScale), ElementsAre(2.5, 5, 10)); }

TEST_F(Ffi, ReportsTheHandlersErrorWhereTheResultIsRead) {
  std::string negative = kScale;
  negative.replace(negative.find("2.5"), 3, "-1.0");

  EXPECT_THAT([&] { run_scale(negative); },
              ThrowsMessage<Error>(HasSubstr("the factor is negative")));
}

TEST_F(Ffi, TakesTheSameHandlerTwiceButNotAnother) {
  const Plugin& plugin = Plugin::load(cpu_plugin());
  int other = 0;
  plugin.register_ffi_handler("kinema.test.scale", reinterpret_cast<void*>(kScaleHandler));
  plugin.register_ffi_handler("kinema.test.scale", reinterpret_cast<void*>(kScaleHandler));

  EXPECT_THAT([&] { plugin.register_ffi_handler("kinema.test.scale", &other); },
              ThrowsMessage<Error>(HasSubstr("is already another function")));
}

}  // namespace
}  // namespace kinema::pjrt
