#include <gmock/gmock.h>

#include "kinema/resolve/device.h"

namespace kinema::resolve {
namespace {

using testing::ElementsAre;

/// Two devices of each of four processes.
std::vector<pjrt::DeviceDescription> eight(const pjrt::NamedValues& attributes = {}) {
  std::vector<pjrt::DeviceDescription> out;
  for (int64_t id = 0; id < 8; ++id) {
    out.push_back({.id = id, .process_index = id / 2, .attributes = attributes});
  }
  return out;
}

std::vector<int64_t> slices(const std::vector<pjrt::DeviceDescription>& devices,
                            const std::string& platform, const std::vector<std::string>& hosts) {
  std::vector<int64_t> out;
  for (const mesh::Device& each : mesh_devices(devices, platform, hosts)) {
    out.push_back(each.slice);
  }
  return out;
}

TEST(MeshDevices, AreOfTheSliceOfTheirHostOnGpus) {
  EXPECT_THAT(slices(eight(), "cuda", {"b", "b", "a", "a"}), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(slices(eight(), "cuda", {"b", "a", "b", "c"}), ElementsAre(0, 0, 1, 1, 0, 0, 2, 2));
  // Without host names each process has its own host.
  EXPECT_THAT(slices(eight(), "cuda", {}), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(slices({{.id = 0}, {.id = 1}}, "cuda", {"a"}), ElementsAre(0, 0));
}

TEST(MeshDevices, AreOfTheirReportedSlice) {
  for (const char* name : {"slice_index", "partition_index"}) {
    const auto devices = eight({{name, int64_t{3}}});
    for (const char* platform : {"cuda", "tpu", "cpu"}) {
      EXPECT_THAT(slices(devices, platform, {"a", "b", "c", "d"}), testing::Each(3)) << name;
    }
  }
}

TEST(MeshDevices, AreOfOneSliceOnCpusAndUntoldTpus) {
  EXPECT_THAT(slices(eight(), "cpu", {"a", "b", "c", "d"}), testing::Each(0));
  EXPECT_THAT(slices(eight(), "tpu", {"a", "b", "c", "d"}), testing::Each(0));
}

}  // namespace
}  // namespace kinema::resolve
