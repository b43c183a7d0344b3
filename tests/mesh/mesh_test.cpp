#include "kinema/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "kinema/core/error.h"
#include "kinema/mesh/batch.h"
#include "kinema/mesh/placement.h"

namespace kinema::mesh {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// `count` devices in each of `slices`, with the ids 0, 1, 2, ...
std::vector<Device> devices(int64_t count, int64_t slices = 1) {
  std::vector<Device> out;
  for (int64_t id = 0; id < count * slices; ++id) {
    out.push_back({id, id / count});
  }
  return out;
}

/// data, fsdp, context, tensor within a slice.
Settings ici(int64_t data, int64_t fsdp, int64_t context, int64_t tensor) {
  Settings config;
  config.ici_data_parallelism = data;
  config.ici_fsdp_parallelism = fsdp;
  config.ici_context_parallelism = context;
  config.ici_tensor_parallelism = tensor;
  return config;
}

Placement placed(const Settings& config, int64_t count) {
  return {make_mesh(config, devices(count)),
          AxisRules::parse(config.logical_axis_rules, "logical_axis_rules")};
}

TEST(Mesh, GivesWhatIsLeftToTheAxisOfMinusOne) {
  const Mesh mesh = make_mesh(ici(2, 1, -1, 1), devices(8));

  EXPECT_EQ(axes_text(mesh.axes), "data=2 fsdp=1 context=4 tensor=1");
  EXPECT_THAT(mesh.device_ids, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Mesh, PlacesDevicesInTheOrderOfTheirIds) {
  std::vector<Device> shuffled = devices(4);
  std::ranges::reverse(shuffled);

  EXPECT_THAT(make_mesh(ici(1, 4, 1, 1), shuffled).device_ids, ElementsAre(0, 1, 2, 3));
}

TEST(Mesh, PutsSlicesOutermostAlongEachAxis) {
  Settings config = ici(1, 2, 1, 2);
  config.dcn_fsdp_parallelism = 2;
  config.dcn_context_parallelism = 1;

  const Mesh mesh = make_mesh(config, devices(4, 2));

  // fsdp has 2 x 2: its first half is slice 0 (ids 0-3), its second half slice 1 (ids 4-7).
  EXPECT_EQ(axes_text(mesh.axes), "data=1 fsdp=4 context=1 tensor=2");
  EXPECT_THAT(mesh.device_ids, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));

  config.dcn_fsdp_parallelism = 1;
  config.dcn_context_parallelism = -1;
  // Now context has 2 x 1, inside fsdp: the slices alternate.
  EXPECT_THAT(make_mesh(config, devices(4, 2)).device_ids, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));

  config.dcn_context_parallelism = 1;
  config.dcn_tensor_parallelism = 2;
  EXPECT_THAT(make_mesh(config, devices(4, 2)).device_ids, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
}

TEST(Mesh, HoldsEveryDeviceOnceWhateverTheSizes) {
  const int64_t sizes[] = {1, 2, 3};
  for (const int64_t dcn_data : sizes) {
    for (const int64_t dcn_fsdp : sizes) {
      for (const int64_t fsdp : sizes) {
        for (const int64_t context : sizes) {
          for (const int64_t tensor : sizes) {
            Settings config = ici(1, fsdp, context, tensor);
            config.dcn_data_parallelism = dcn_data;
            config.dcn_fsdp_parallelism = dcn_fsdp;
            config.dcn_context_parallelism = 1;
            const int64_t per_slice = fsdp * context * tensor;
            const Mesh mesh = make_mesh(config, devices(per_slice, dcn_data * dcn_fsdp));
            SCOPED_TRACE(axes_text(mesh.axes));

            std::vector<int64_t> ids = mesh.device_ids;
            std::ranges::sort(ids);
            for (size_t i = 0; i < ids.size(); ++i) {
              ASSERT_EQ(ids[i], static_cast<int64_t>(i));
            }
            // Along data only the slice changes.
            const auto stride = static_cast<size_t>(mesh.devices() / dcn_data);
            for (size_t i = 0; i + stride < mesh.device_ids.size(); ++i) {
              ASSERT_EQ(mesh.device_ids[i] % per_slice, mesh.device_ids[i + stride] % per_slice);
            }
          }
        }
      }
    }
  }
}

TEST(Mesh, CutsDevicesIntoAsManySlicesAsAsked) {
  Settings config = ici(1, 2, 1, 1);
  config.compile_topology_num_slices = 2;
  config.dcn_data_parallelism = 2;
  config.dcn_context_parallelism = 1;

  EXPECT_EQ(axes_text(make_mesh(config, devices(4)).axes), "data=2 fsdp=2 context=1 tensor=1");

  config.compile_topology_num_slices = 3;
  EXPECT_THAT([&] { make_mesh(config, devices(4)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("compile_topology_num_slices is 3"),
                                         HasSubstr("1, 2 or 4 would"))));
}

TEST(Mesh, TakesAxesInAnotherOrderAndGivesThoseLeftOutOneDevice) {
  Settings config = ici(2, 2, 1, 1);
  config.mesh_axes = {"fsdp", "data"};

  EXPECT_EQ(axes_text(make_mesh(config, devices(4)).axes), "fsdp=2 data=2 context=1 tensor=1");

  config.ici_tensor_parallelism = 2;
  EXPECT_THAT(
      [&] { make_mesh(config, devices(8)); },
      ThrowsMessage<Error>("[mesh] ici_tensor_parallelism is 2 but mesh_axes has no `tensor`"));
}

TEST(Mesh, RefusesTwoAxesOfMinusOneInOneNetwork) {
  EXPECT_THAT(
      [] { make_mesh(ici(-1, 1, -1, 1), devices(8)); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr("ici_data_parallelism and ici_context_parallelism are -1, but only one axis"),
          HasSubstr("ici_context_parallelism=1"))));
  Settings config = ici(1, 1, -1, 1);  // dcn_context_parallelism is -1 too, for another network
  EXPECT_NO_THROW(make_mesh(config, devices(8)));
}

TEST(Mesh, RefusesSizesThatDoNotMultiplyToTheDevices) {
  EXPECT_THAT(
      [] { make_mesh(ici(2, 2, 1, 1), devices(8)); },
      ThrowsMessage<Error>(
          "[mesh] ici_data_parallelism=2 x ici_fsdp_parallelism=2 makes 4, but the number "
          "of devices is 8\n  change the sizes until their product is 8, or set one of them "
          "to -1"));
  EXPECT_THAT([] { make_mesh(ici(3, 1, -1, 1), devices(8)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("ici_data_parallelism=3 makes 3"),
                                         HasSubstr("must be 1, 2, 4 or 8"))));
  Settings one_slice = ici(1, 1, 8, 1);
  one_slice.dcn_data_parallelism = 4;
  one_slice.dcn_context_parallelism = 1;
  EXPECT_THAT([&] { make_mesh(one_slice, devices(8)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("makes 4, but the number of slices is 1"),
                                         HasSubstr("compile_topology_num_slices=4"))));
  EXPECT_THAT([] { make_mesh(ici(0, 1, -1, 1), devices(8)); },
              ThrowsMessage<Error>(HasSubstr("ici_data_parallelism is 0")));
}

TEST(Mesh, RefusesUnequalSlices) {
  std::vector<Device> all = devices(2, 2);
  all.push_back({4, 1});
  EXPECT_THAT([&] { make_mesh(ici(1, 1, -1, 1), all); },
              ThrowsMessage<Error>(HasSubstr("slice 1 has 3 devices but another one has 2")));
}

TEST(Batch, IsRefusedWithTheSizesThatWorkWhenItDoesNotDivide) {
  const Placement placement = placed(ici(4, 2, 1, 1), 8);

  EXPECT_NO_THROW(check_batch(placement, 16, 0));
  EXPECT_THAT(
      [&] { check_batch(placement, 12, 0); },
      ThrowsMessage<Error>(AllOf(HasSubstr("12 samples does not divide over data=4 x fsdp=2"),
                                 HasSubstr("set global_batch_size=16"))));
}

TEST(Batch, OfAFractionNeedsDevicesThatDoNotSplitSamples) {
  EXPECT_NO_THROW(check_batch(placed(ici(2, 1, 4, 1), 8), 2, 0.25));
  EXPECT_THAT([&] { check_batch(placed(ici(8, 1, 1, 1), 8), 2, 0.25); },
              ThrowsMessage<Error>(AllOf(
                  HasSubstr("per_device_batch_size 0.25 on 8 devices is a batch of 2"),
                  HasSubstr("put devices on fsdp, context or tensor until the product is 1 or "
                            "2"))));
}

TEST(Batch, OfAFractionLeavesFsdpToTheTokens) {
  const Placement asked = placed(ici(2, 4, 1, 1), 8);

  EXPECT_NO_THROW(check_batch(asked.for_samples(2), 2, 0.25));
  EXPECT_THAT([&] { check_batch(asked.for_samples(1), 1, 0.125); },
              ThrowsMessage<Error>(AllOf(
                  HasSubstr("is a batch of 1, which does not divide over data=2"),
                  HasSubstr("put devices on fsdp, context or tensor until the product is 1"))));
}

TEST(Batch, IsDescribedWithWhatEachAxisSplits) {
  EXPECT_EQ(batch_text(placed(ici(2, 2, 2, 1), 8), 4, "samples"),
            "4 samples over data=2 x fsdp=2, tokens over context=2, weights over context=2 x "
            "fsdp=2");
  EXPECT_EQ(batch_text(placed(ici(1, 1, 1, 4), 4), 1, "sample"),
            "1 sample, heads over tensor=4, weights over tensor=4");
  EXPECT_EQ(batch_text(placed(ici(1, 2, 2, 1), 4), 1, "sample"),
            "1 sample, tokens over context=2 x fsdp=2, weights over context=2 x fsdp=2; a batch of "
            "1 does not divide over fsdp=2, so fsdp splits its tokens");
}

TEST(Batch, IsSplitOverAsManyOfTheAxesOfDataShardingAsItDividesOver) {
  const Settings config = ici(2, 2, 2, 1);
  const Placement placement = placed(config, 8);
  const auto split = [&](int64_t samples) {
    return batch_axes(placement, config.data_sharding, samples);
  };

  EXPECT_THAT(split(16), ElementsAre("data", "fsdp", "context"));
  EXPECT_THAT(split(4), ElementsAre("data", "fsdp"));
  EXPECT_THAT(split(3), ElementsAre());
  EXPECT_THAT([&] { batch_axes(placement, {R"(["data", "fsdp"])"}, 4); },
              ThrowsMessage<Error>(HasSubstr("data_sharding")));
}

TEST(Heads, AreRefusedWithTheNumbersThatWork) {
  const Placement placement = placed(ici(1, 1, 1, 3), 3);

  EXPECT_NO_THROW(check_divides(placement, "attention heads", 12, "heads"));
  EXPECT_THAT([&] { check_divides(placement, "attention heads", 40, "heads"); },
              ThrowsMessage<Error>(
                  "[mesh] 40 attention heads do not divide over tensor=3 (`heads` of "
                  "logical_axis_rules)\n  the product must be 1, 2, 4, 5, 8, 10, 20 or 40"));
}

}  // namespace
}  // namespace kinema::mesh
