#include "kinema/pjrt/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/pjrt/topology.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using ClientTest = CpuTest;
using BufferTest = CpuTest;
using TopologyTest = CpuTest;

TEST_F(ClientTest, ReportsPlatformAndVersions) {
  const Client client = cpu_client();

  EXPECT_EQ(client.platform_name(), "cpu");
  EXPECT_FALSE(client.platform_version().empty());
  EXPECT_EQ(client.process_index(), 0);
  EXPECT_THAT(client.plugin().stablehlo_version(),
              testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST_F(ClientTest, OpensTheRequestedNumberOfDevices) {
  const Client client = cpu_client(4);

  ASSERT_EQ(client.devices().size(), 4u);
  EXPECT_EQ(client.addressable_devices().size(), 4u);
  EXPECT_EQ(client.device(3).description().kind, "cpu");
  EXPECT_THAT(client.device(0).memory_kinds(), testing::Contains(HasSubstr("host")));
  EXPECT_THAT([&] { client.device(9); },
              ThrowsMessage<Error>("[pjrt] there is no device 9: the ids are 0, 1, 2, 3"));
}

TEST_F(ClientTest, RefusesAWronglyTypedOptionInsteadOfEndingTheProcess) {
  const Plugin& plugin = Plugin::load(cpu_plugin());

  EXPECT_THAT(
      [&] {
        Client client(plugin, {{"cpu_device_count", std::string("four")}});
      },
      ThrowsMessage<Error>(HasSubstr("`cpu_device_count` takes an integer")));
  EXPECT_THAT(
      [&] {
        Client client(plugin, {{"cpu_device_count", int64_t{-1}}});
      },
      ThrowsMessage<Error>(HasSubstr("at least 1")));
}

TEST_F(BufferTest, RoundTripsEveryElementType) {
  const Client client = cpu_client();
  for (const DType dtype : {DType::PRED, DType::S8, DType::S16, DType::S32, DType::S64, DType::U8,
                            DType::U16, DType::U32, DType::U64, DType::F8E4M3FN, DType::F8E5M2,
                            DType::F16, DType::BF16, DType::F32, DType::F64}) {
    SCOPED_TRACE(to_string(dtype));
    HostArray array(Shape{dtype, {2, 3}});
    // 0 and 1 in each byte are valid values of every type, PRED included.
    for (size_t i = 0; i < array.bytes.size(); ++i) array.bytes[i] = std::byte(i % 2);

    const Buffer buffer = client.to_device(array);

    EXPECT_EQ(buffer.shape(), array.shape);
    EXPECT_EQ(buffer.to_host().bytes, array.bytes);
    EXPECT_EQ(buffer.device_bytes(), array.shape.bytes());
  }
}

TEST_F(BufferTest, HoldsScalarsAndEmptyArrays) {
  const Client client = cpu_client();

  const Buffer scalar = client.to_device(HostArray::f32({}, std::array<float, 1>{7}));
  const Buffer empty = client.to_device(HostArray(Shape{DType::F32, {0, 4}}));

  EXPECT_EQ(scalar.to_host().as<float>()[0], 7);
  EXPECT_EQ(empty.shape(), (Shape{DType::F32, {0, 4}}));
  EXPECT_TRUE(empty.to_host().bytes.empty());
}

TEST_F(BufferTest, OwnsAMovedArrayUntilTheCopyIsDone) {
  const Client client = cpu_client();
  HostArray array(Shape{DType::S32, {1 << 20}});  // large enough for the plugin to copy later
  const std::span<int32_t> values = array.as<int32_t>();
  std::iota(values.begin(), values.end(), 0);

  const Buffer buffer = client.to_device(std::move(array));

  const HostArray back = buffer.to_host();
  EXPECT_EQ(back.as<int32_t>()[0], 0);
  EXPECT_EQ(back.as<int32_t>()[(1 << 20) - 1], (1 << 20) - 1);
}

TEST_F(BufferTest, LivesOnTheDeviceItWasGivenTo) {
  const Client client = cpu_client(3);

  const Buffer buffer = client.to_device(HostArray(Shape{DType::F32, {2}}), client.device(2));

  EXPECT_EQ(buffer.device_id(), 2);
}

TEST_F(BufferTest, OutlivesItsClient) {
  Buffer buffer;
  {
    const Client client = cpu_client();
    buffer = client.to_device(HostArray::f32({2}, std::array<float, 2>{3, 4}));
  }

  EXPECT_THAT(buffer.to_host().as<float>(), ElementsAre(3, 4));
}

TEST_F(BufferTest, IsDeletedWhenDropped) {
  const Client client = cpu_client();
  Buffer buffer = client.to_device(HostArray(Shape{DType::F32, {2}}));
  EXPECT_FALSE(buffer.is_deleted());

  buffer.drop();

  EXPECT_TRUE(buffer.is_deleted());
  EXPECT_THAT(
      [&] { buffer.to_host(); },
      ThrowsMessage<Error>("[pjrt] a buffer f32[2] is read after it was donated or dropped"));
}

TEST_F(BufferTest, RefusesBytesThatDoNotFillTheShape) {
  const Client client = cpu_client();
  const std::array<std::byte, 8> bytes{};
  const Buffer buffer = client.to_device(HostArray(Shape{DType::F32, {2}}));
  std::array<std::byte, 4> small{};

  EXPECT_THAT(
      [&] {
        client.to_device(bytes, Shape{DType::F32, {3}});
      },
      ThrowsMessage<Error>("[pjrt] f32[3] takes 12 bytes but 8 were given"));
  EXPECT_THAT([&] { buffer.to_host(small); },
              ThrowsMessage<Error>("[pjrt] f32[2] has 8 bytes but is to be copied into 4"));
}

TEST_F(BufferTest, CallsBackWhenItsValuesAreReady) {
  const Client client = cpu_client();
  const Buffer buffer = client.to_device(HostArray(Shape{DType::F32, {2}}));
  std::mutex mutex;
  std::condition_variable called;
  std::optional<std::string> error;

  buffer.ready().on_ready([&](const std::string& message) {
    const std::lock_guard lock(mutex);
    error = message;
    called.notify_one();
  });

  std::unique_lock lock(mutex);
  ASSERT_TRUE(called.wait_for(lock, std::chrono::seconds(10), [&] { return error.has_value(); }));
  EXPECT_EQ(*error, "");
}

TEST_F(TopologyTest, IsRefusedWhereThePluginHasNone) {
  const Plugin& plugin = Plugin::load(cpu_plugin());

  EXPECT_THAT([&] { Topology topology(plugin, "cpu:4"); },
              ThrowsMessage<Error>(HasSubstr("PJRT_TopologyDescription_Create: ")));
}

}  // namespace
}  // namespace kinema::pjrt
