#include "kinema/pjrt/transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "kinema/core/error.h"
#include "kinema/pjrt/upload.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::pjrt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TransfersTest : public CpuTest {
 protected:
  static const Client& client() {
    static const Client client = cpu_client(1);
    return client;
  }
  const HostArray four_ = HostArray(Shape{DType::F32, {4}});  // 16 bytes
};

TEST_F(TransfersTest, AreCountedWhereTheyBegin) {
  const TransferCounts before = transfers();
  const Buffer buffer = client().to_device(four_);
  Upload upload(client(), four_.shape);
  upload.write(four_.bytes);
  const Buffer second = upload.finish();
  (void)buffer.to_host();

  EXPECT_EQ(transfers().to_device - before.to_device, 2);
  EXPECT_EQ(transfers().to_device_bytes - before.to_device_bytes, 32);
  EXPECT_EQ(transfers().to_host - before.to_host, 1);
  EXPECT_EQ(transfers().to_host_bytes - before.to_host_bytes, 16);
}

TEST_F(TransfersTest, AreRefusedWithinAGuard) {
  const Buffer buffer = client().to_device(four_);
  {
    const TransferGuard guard("the steps");
    EXPECT_THAT([&] { (void)client().to_device(four_); },
                ThrowsMessage<Error>(AllOf(HasSubstr("[transfer_guard]"), HasSubstr("16 bytes"),
                                           HasSubstr("to the device in the steps"))));
    EXPECT_THAT([&] { (void)buffer.to_host(); },
                ThrowsMessage<Error>(HasSubstr("to the host in the steps")));
    EXPECT_THROW(Upload(client(), four_.shape), Error);
  }
  EXPECT_EQ(buffer.to_host().bytes.size(), 16U);
}

TEST_F(TransfersTest, PassAGuardAsFarAsTheyAreAllowed) {
  const Buffer buffer = client().to_device(four_);
  const TransferGuard guard("the steps");
  {
    const AllowTransfers metrics(Direction::TO_HOST, "the metrics", 16);
    (void)buffer.to_host();
    EXPECT_THAT([&] { (void)buffer.to_host(); },
                ThrowsMessage<Error>(HasSubstr("in the metrics, where nothing is")));
    EXPECT_THROW((void)client().to_device(four_), Error);
    const AllowTransfers all;
    (void)client().to_device(buffer.to_host());
  }
  EXPECT_THROW((void)buffer.to_host(), Error);
}

TEST_F(TransfersTest, OfOtherThreadsAreNotGuarded) {
  const TransferGuard guard("the steps");
  std::thread([&] { EXPECT_NO_THROW((void)client().to_device(four_)); }).join();
}

}  // namespace
}  // namespace kinema::pjrt
