#include "kinema/runtime/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kinema/core/error.h"
#include "runtime/cpu_client.h"
#include "runtime/cpu_mesh.h"

namespace kinema::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

HostArray scalar(float x) { return HostArray::f32({1}, std::array<float, 1>{x}); }

TEST(OddCopies, AreThoseWithOtherBitsThanMost) {
  const float next = std::nextafter(1.0F, 2.0F);
  EXPECT_THAT(mismatched_replicas(std::array{scalar(1), scalar(1), scalar(1)}), IsEmpty());
  EXPECT_THAT(mismatched_replicas(std::array{scalar(1), scalar(next), scalar(1)}), ElementsAre(1));
  EXPECT_THAT(mismatched_replicas(std::array{scalar(2), scalar(1), scalar(1), scalar(3)}),
              ElementsAre(0, 3));
  EXPECT_THAT(mismatched_replicas(std::array{scalar(0.0F), scalar(-0.0F)}), ElementsAre(1));
  EXPECT_THAT(mismatched_replicas(std::span<const HostArray>()), IsEmpty());
}

TEST(OddCopies, TakeEveryNanForTheSame) {
  EXPECT_THAT(mismatched_replicas(std::array{scalar(std::nanf("1")), scalar(-std::nanf("2"))}),
              IsEmpty());
  EXPECT_THAT(mismatched_replicas(std::array{scalar(1), scalar(1), scalar(std::nanf("1"))}),
              ElementsAre(2));
}

class ReplicaCheckTest : public CpuClientTest {
 protected:
  /// The array with one bit flipped in one device's shard.
  static Array with_fault(const Devices& on, const Array& array, size_t device) {
    std::vector<pjrt::Buffer> shards;
    for (size_t d = 0; d < array.shards().size(); ++d) {
      HostArray part = array.shards()[d].to_host();
      if (d == device) {
        part.bytes.back() ^= std::byte{1};
      }
      shards.push_back(on.client().to_device(part, on[d]));
    }
    return {array.shape(), {array.blocks().begin(), array.blocks().end()}, std::move(shards)};
  }
};

TEST_F(ReplicaCheckTest, NamesTheArrayAndTheDeviceThatDiffer) {
  const pjrt::Client client = open_client({.cpu_devices = 4});
  const Devices on = devices_of(client, mesh_sizes(2, 2, 1, 1));
  const Sharding rows{{{"fsdp"}, {}}};
  const Shape shape{DType::F32, {4, 3}};
  const Shape count{DType::S32, {}};
  const std::vector<Port> ports = {{.name = "a", .shape = shape, .shard = shape, .sharding = rows},
                                   {.name = "b", .shape = shape, .shard = shape},
                                   {.name = "count", .shape = count, .shard = count}};
  const ReplicaCheck check(on, ports, {});
  HostArray values(shape);
  for (size_t i = 0; i < 12; ++i) {
    values.as<float>()[i] = static_cast<float>(i) - 3.5F;
  }
  std::vector<Array> arrays;
  arrays.push_back(on.upload(values, rows));
  arrays.push_back(on.upload(values));
  arrays.push_back(on.upload(HostArray(count)));

  const std::vector<const Array*> given{&arrays[0], &arrays[1], &arrays[2]};

  EXPECT_THAT(check.find(given), IsEmpty());

  // Row-major over data=2, fsdp=2: devices 1 and 3 hold the same rows of `a`.
  arrays[0] = with_fault(on, arrays[0], 3);
  arrays[1] = with_fault(on, arrays[1], 2);
  const std::vector<MismatchedReplica> found = check.find(given);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].array, 0U);
  EXPECT_EQ(found[0].device, 3U) << "of two copies the first one counts";
  EXPECT_EQ(found[1].array, 1U);
  EXPECT_EQ(found[1].device, 2U);
  EXPECT_EQ(device_text(on, 2), "device 2 (data=1, fsdp=0)");
}

TEST_F(ReplicaCheckTest, ComparesNarrowAndWideTypes) {
  const pjrt::Client client = open_client({.cpu_devices = 2});
  const Devices on = devices_of(client, mesh_sizes(2, 1, 1, 1));
  std::vector<Port> ports;
  std::vector<Array> arrays;
  for (const DType dtype :
       {DType::PRED, DType::S8, DType::U8, DType::F8E4M3FN, DType::F8E5M2, DType::BF16, DType::F16,
        DType::S32, DType::U32, DType::F32, DType::S64, DType::U64, DType::F64}) {
    const Shape shape{dtype, {3, 5}};
    ports.push_back({.name = std::string(mlir_name(dtype)), .shape = shape, .shard = shape});
    HostArray values(shape);
    for (size_t i = 0; i < values.bytes.size(); ++i) {
      values.bytes[i] = std::byte{static_cast<uint8_t>(dtype == DType::PRED ? 0 : i * 7)};
    }
    arrays.push_back(on.upload(values));
  }
  const ReplicaCheck check(on, ports, {});
  std::vector<const Array*> given;
  for (const Array& array : arrays) {
    given.push_back(&array);
  }
  EXPECT_THAT(check.find(given), IsEmpty());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Array odd = with_fault(on, arrays[i], 1);
    std::vector<const Array*> with_odd = given;
    with_odd[i] = &odd;
    const std::vector<MismatchedReplica> found = check.find(with_odd);
    ASSERT_EQ(found.size(), 1U) << ports[i].name;
    EXPECT_EQ(found[0].array, i);
    EXPECT_EQ(found[0].device, 1U);
  }
}

TEST_F(ReplicaCheckTest, FindsNothingOnOneDevice) {
  const Devices on{open_client({})};
  const Array array = on.upload(scalar(1));
  const std::vector<Port> ports = {{.name = "a", .shape = {DType::F32, {1}}}};
  EXPECT_THAT(ReplicaCheck(on, ports, {}).find(std::array{&array}), IsEmpty());
  EXPECT_EQ(device_text(on, 0), "device 0");
}

}  // namespace
}  // namespace kinema::runtime
