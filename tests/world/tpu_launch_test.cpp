#include <gmock/gmock.h>

#include <map>

#include "kinema/core/error.h"
#include "kinema/world/launch.h"

namespace kinema::world {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Launch launch_in(const Variables& variables) {
  return detect_tpu_launch([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

/// The error, checked to be one line plus one with the remedy.
std::string error_in(const Variables& variables) {
  try {
    launch_in(variables);
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_LE(std::ranges::count(text, '\n'), 1) << text;
    return text;
  }
  return "";
}

TEST(TpuPlace, IsAloneWithoutOthers) {
  for (const Variables& variables : std::vector<Variables>{
           {},
           {{"TPU_WORKER_ID", "0"}},
           {{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "localhost"}},
           {{"TPU_WORKER_HOSTNAMES", "t1v-n-0"}, {"TPU_PROCESS_BOUNDS", "1,1,1"}},
           {{"TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1"}, {"TPU_PROCESS_BOUNDS", "1,1,1"}},
           {{"TPU_WORKER_ID", "0"}, {"MEGASCALE_NUM_SLICES", "1"}, {"MEGASCALE_SLICE_ID", "0"}}}) {
    const Launch launch = launch_in(variables);
    EXPECT_EQ(launch.launcher, Launcher::NONE);
    EXPECT_EQ(launch.size, 1);
    EXPECT_THAT(launch.how, HasSubstr("one process"));
  }
}

TEST(TpuPlace, IsAWorkerOfAPod) {
  const Launch launch = launch_in({{"TPU_WORKER_ID", "2"}, {"TPU_WORKER_HOSTNAMES", "a, b,c ,d"}});
  EXPECT_EQ(launch.launcher, Launcher::TCP);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.coordinator, "a:8490");
  EXPECT_THAT(launch.how, HasSubstr("TPU_WORKER_ID"));
}

TEST(TpuPlace, CountsTheWorkersOfAllSlices) {
  const Launch launch = launch_in({{"TPU_WORKER_ID", "1"},
                                   {"TPU_WORKER_HOSTNAMES", "c,d"},
                                   {"MEGASCALE_NUM_SLICES", "3"},
                                   {"MEGASCALE_SLICE_ID", "2"},
                                   {"MEGASCALE_COORDINATOR_ADDRESS", "a:8080"}});
  EXPECT_EQ(launch.rank, 1 + 2 * 2);
  EXPECT_EQ(launch.size, 6);
  EXPECT_EQ(launch.coordinator, "a:8490");  // of slice 0
}

TEST(TpuPlace, TakesSlicesOfOneHost) {
  const Launch launch = launch_in({{"TPU_WORKER_ID", "0"},
                                   {"TPU_WORKER_HOSTNAMES", "a"},
                                   {"MEGASCALE_NUM_SLICES", "2"},
                                   {"MEGASCALE_SLICE_ID", "1"},
                                   {"MEGASCALE_COORDINATOR_ADDRESS", "a"}});
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 2);
}

TEST(TpuPlace, ReadsTheOlderNames) {
  const Launch launch =
      launch_in({{"CLOUD_TPU_TASK_ID", "3"},
                 {"TPU_PROCESS_ADDRESSES", "a:8476,a:8477,[fe80::1]:8476,fe80::2"},
                 {"TPU_WORKER_ID", "1"},  // of the host, which has two processes
                 {"TPU_WORKER_HOSTNAMES", "a,b"},
                 {"TPU_HOST_BOUNDS", "2,2,1"}});
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.coordinator, "a:8490");
  EXPECT_EQ(launch_in({{"CLOUD_TPU_TASK_ID", "1"}, {"TPU_WORKER_HOSTNAMES", "a,b"}}).rank, 1);
  EXPECT_EQ(launch_in({{"TPU_WORKER_ID", "1"}, {"TPU_PROCESS_ADDRESSES", "a:1,b:1"}}).rank, 1);
}

TEST(TpuPlace, RefusesNumbersThatAreNoProcess) {
  EXPECT_THAT(error_in({{"TPU_WORKER_ID", "4"}, {"TPU_WORKER_HOSTNAMES", "a,b,c,d"}}),
              AllOf(HasSubstr("TPU_WORKER_ID=4, but TPU_WORKER_HOSTNAMES names 4 hosts\n"),
                    HasSubstr("start at 0")));
  EXPECT_THAT(error_in({{"TPU_WORKER_ID", "one"}, {"TPU_WORKER_HOSTNAMES", "a,b"}}),
              HasSubstr("TPU_WORKER_ID=one"));
  EXPECT_THAT(error_in({{"TPU_WORKER_HOSTNAMES", "a,b"}}),
              HasSubstr("names 2 hosts, but TPU_WORKER_ID is not set"));
  EXPECT_THAT(error_in({{"TPU_WORKER_ID", "1"}}),
              HasSubstr("TPU_WORKER_ID=1, but TPU_WORKER_HOSTNAMES is not set"));
  EXPECT_THAT(error_in({{"CLOUD_TPU_TASK_ID", "1"}}),
              HasSubstr("CLOUD_TPU_TASK_ID=1, but TPU_PROCESS_ADDRESSES is not set"));
  EXPECT_THAT(error_in({{"TPU_PROCESS_ADDRESSES", "a:1,b:1"}}),
              HasSubstr("names 2 processes, but CLOUD_TPU_TASK_ID is not set"));
  EXPECT_THAT(
      error_in(
          {{"TPU_WORKER_ID", "0"}, {"CLOUD_TPU_TASK_ID", "1"}, {"TPU_WORKER_HOSTNAMES", "a,b"}}),
      HasSubstr("CLOUD_TPU_TASK_ID=1 but TPU_WORKER_ID=0"));
  EXPECT_THAT(error_in({{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "a,,b"}}),
              HasSubstr("an entry is empty"));
}

TEST(TpuPlace, RefusesBoundsOfOthers) {
  EXPECT_THAT(error_in({{"TPU_WORKER_ID", "0"},
                        {"TPU_WORKER_HOSTNAMES", "a,b"},
                        {"TPU_PROCESS_BOUNDS", "2,2,1"}}),
              HasSubstr("TPU_PROCESS_BOUNDS=2,2,1 is a grid of 4 processes, but "
                        "TPU_WORKER_HOSTNAMES names 2 hosts"));
  EXPECT_THAT(error_in({{"CLOUD_TPU_TASK_ID", "0"}, {"TPU_HOST_BOUNDS", "2,1,1"}}),
              AllOf(HasSubstr("but no list names them"), HasSubstr("TPU_PROCESS_ADDRESSES lists")));
  EXPECT_THAT(error_in({{"TPU_PROCESS_BOUNDS", "2,x"}}), HasSubstr("TPU_PROCESS_BOUNDS=2,x"));
  EXPECT_THAT(error_in({{"TPU_PROCESS_BOUNDS", "0,1"}}), HasSubstr("TPU_PROCESS_BOUNDS=0,1"));
}

TEST(TpuPlace, RefusesSlicesThatContradictEachOther) {
  const auto with = [](Variables more) {
    more.insert({{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "a,b"}});
    return error_in(more);
  };
  EXPECT_THAT(with({{"MEGASCALE_NUM_SLICES", "two"}}), HasSubstr("MEGASCALE_NUM_SLICES=two"));
  EXPECT_THAT(with({{"MEGASCALE_NUM_SLICES", "0"}}), HasSubstr("MEGASCALE_NUM_SLICES=0"));
  EXPECT_THAT(with({{"MEGASCALE_NUM_SLICES", "2"}}), HasSubstr("MEGASCALE_SLICE_ID is not set"));
  EXPECT_THAT(with({{"MEGASCALE_NUM_SLICES", "2"}, {"MEGASCALE_SLICE_ID", "2"}}),
              HasSubstr("MEGASCALE_SLICE_ID=2, but MEGASCALE_NUM_SLICES=2"));
  EXPECT_THAT(with({{"MEGASCALE_NUM_SLICES", "2"}, {"MEGASCALE_SLICE_ID", "1"}}),
              HasSubstr("MEGASCALE_COORDINATOR_ADDRESS is not set"));
  EXPECT_THAT(with({{"MEGASCALE_SLICE_ID", "1"}}), HasSubstr("MEGASCALE_NUM_SLICES is not set"));
}

/// A metadata server's answers.
Environment with_metadata(const Variables& variables, const Variables& server) {
  const auto in = [](const Variables& all) {
    return [all](std::string_view name) -> std::optional<std::string> {
      const auto found = all.find(std::string(name));
      return found == all.end() ? std::nullopt : std::optional(found->second);
    };
  };
  return with_tpu_metadata(in(variables), in(server));
}

TEST(TpuPlace, AsksTheMetadataServerWhereNoVariableSays) {
  const Variables server = {
      {"agent-worker-number", "1"},
      {"worker-network-endpoints", "unknown:unknown:10.0.0.2,unknown:unknown:10.0.0.3"}};
  const Launch launch = detect_tpu_launch(with_metadata({}, server));
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 2);
  EXPECT_EQ(launch.coordinator, "10.0.0.2:8490");
  EXPECT_EQ(detect_tpu_launch(with_metadata({{"TPU_SKIP_MDS_QUERY", "1"}}, server)).size, 1);
  EXPECT_EQ(detect_tpu_launch(with_metadata({{"TPU_WORKER_ID", "0"}}, server)).size, 1);
  EXPECT_EQ(detect_tpu_launch(with_metadata({}, {})).size, 1);
  EXPECT_EQ(detect_tpu_launch(with_metadata({}, {{"agent-worker-number", "0"}})).size, 1);
}

}  // namespace
}  // namespace kinema::world
