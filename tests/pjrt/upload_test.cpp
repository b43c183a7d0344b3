#include "kinema/pjrt/upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::pjrt {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

HostArray counted(const Shape& shape) {
  HostArray out(shape);
  for (size_t i = 0; i < out.bytes.size(); ++i) {
    out.bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  return out;
}

class UploadTest : public CpuTest {};

TEST_F(UploadTest, IsDirectOnTheCpuPlugin) {
  EXPECT_TRUE(Upload(cpu_client(), {DType::F32, {4, 3}}).is_direct());
}

TEST_F(UploadTest, MakesTheArrayOfItsPieces) {
  const Client client = cpu_client(2);
  for (const Shape& shape : {Shape{DType::F32, {7, 5, 3}}, Shape{DType::BF16, {1000}},
                             Shape{DType::U8, {13}}, Shape{DType::F32, {}}}) {
    SCOPED_TRACE(to_string(shape));
    const HostArray expected = counted(shape);
    const std::span<const std::byte> bytes(expected.bytes);
    for (const size_t piece : {size_t{1}, size_t{4}, size_t{50}, bytes.size()}) {
      Upload upload(client, shape, client.addressable_devices()[1]);
      for (size_t at = 0; at < bytes.size(); at += piece) {
        upload.write(bytes.subspan(at, std::min(piece, bytes.size() - at)));
      }
      const Buffer buffer = upload.finish();
      EXPECT_EQ(buffer.to_host().bytes, expected.bytes) << piece;
      EXPECT_EQ(buffer.shape(), shape);
      EXPECT_EQ(buffer.device_id(), client.addressable_devices()[1].id());
    }
  }
}

TEST_F(UploadTest, GoesToMemoryOfTheHostWhereItIsAsked) {
  const Client client = cpu_client(2);
  const Device device = client.addressable_devices()[1];
  const HostArray expected = counted({DType::S8, {7, 5, 3}});
  if (!device.has_pinned_host()) {
    EXPECT_THAT([&] { device.memory_of(MemoryKind::PINNED_HOST); },
                ThrowsMessage<Error>(HasSubstr("no memory of the host")));
    return;
  }
  Upload upload(client, expected.shape, device, MemoryKind::PINNED_HOST);
  upload.write(expected.bytes);
  const Buffer in_pieces = upload.finish();
  const Buffer whole =
      client.to_device(expected.bytes, expected.shape, device, MemoryKind::PINNED_HOST);
  for (const Buffer* each : {&in_pieces, &whole}) {
    EXPECT_EQ(each->memory(), MemoryKind::PINNED_HOST);
    EXPECT_EQ(each->to_host().bytes, expected.bytes);
    EXPECT_EQ(each->device_id(), device.id());
  }
  EXPECT_EQ(client.to_device(expected, device).memory(), MemoryKind::DEVICE);
}

TEST_F(UploadTest, TakesAnArrayWithoutElements) {
  Upload upload(cpu_client(), {DType::F32, {0, 3}});
  upload.write({});
  EXPECT_EQ(upload.finish().shape(), (Shape{DType::F32, {0, 3}}));
}

TEST_F(UploadTest, RefusesTooManyAndTooFewBytes) {
  const HostArray some = counted({DType::F32, {4}});
  Upload upload(cpu_client(), {DType::F32, {5}});
  upload.write(some.bytes);
  EXPECT_THAT([&] { upload.finish(); },
              ThrowsMessage<Error>(HasSubstr("f32[5] takes 20 bytes but only 16 were given")));
  EXPECT_THAT([&] { upload.write(some.bytes); }, ThrowsMessage<Error>(HasSubstr("more than 16")));
}

TEST_F(UploadTest, MayBeGivenUpHalfWay) {
  const Client client = cpu_client();
  {
    Upload upload(client, {DType::F32, {5}});
    const HostArray some = counted({DType::F32, {4}});
    upload.write(some.bytes);
  }
  EXPECT_EQ(client.to_device(counted({DType::F32, {4}})).shape().dims, (Dims{4}));
}

}  // namespace
}  // namespace kinema::pjrt
