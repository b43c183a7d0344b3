#include "kinema/world/launch.h"

#include <gmock/gmock.h>

#include <map>

#include "kinema/core/error.h"

namespace kinema::world {
namespace {

using testing::HasSubstr;
using testing::Optional;

Launch launch_in(const std::map<std::string, std::string>& variables) {
  return detect_launch([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_in(const std::map<std::string, std::string>& variables) {
  try {
    launch_in(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, IsAloneWithoutALauncher) {
  const Launch launch = launch_in({});
  EXPECT_EQ(launch.launcher, Launcher::NONE);
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.size, 1);
}

TEST(Launch, ReadsOpenMpisEnvironment) {
  const Launch launch = launch_in({{"OMPI_COMM_WORLD_RANK", "2"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                   {"PMIX_NAMESPACE", "a"},
                                   {"PMIX_RANK", "2"}});
  EXPECT_EQ(launch.launcher, Launcher::PMIX);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_THAT(launch.local_rank, Optional(0));
  EXPECT_THAT(launch.local_size, Optional(2));
  EXPECT_THAT(launch.how, HasSubstr("mpirun"));
}

// As in mpirun -np 1: nothing needs to be loaded.
TEST(Launch, IsAloneAsTheOnlyOneOfALauncher) {
  const Launch launch = launch_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(launch.launcher, Launcher::NONE);
}

TEST(Launch, ReadsSlurmsStep) {
  const Launch launch = launch_in({{"SLURM_PROCID", "1"},
                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                   {"SLURM_LOCALID", "1"},
                                   {"PMIX_NAMESPACE", "slurm.pmix.7.0"},
                                   {"PMIX_RANK", "1"}});
  EXPECT_EQ(launch.launcher, Launcher::PMIX);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 2);
}

TEST(Launch, UsesSlurmsFirstHostWithoutPmix) {
  const auto coordinator = [](const std::string& hosts) {
    const Launch launch = launch_in({{"SLURM_PROCID", "1"},
                                     {"SLURM_STEP_NUM_TASKS", "2"},
                                     {"SLURM_JOB_ID", "4099"},
                                     {"SLURM_STEP_NODELIST", hosts}});
    EXPECT_EQ(launch.launcher, Launcher::TCP);
    EXPECT_EQ(launch.rank, 1);
    EXPECT_EQ(launch.size, 2);
    return launch.coordinator;
  };
  EXPECT_EQ(coordinator("node1"), "node1:61443");
  EXPECT_EQ(coordinator("node1,node2"), "node1:61443");
  EXPECT_EQ(coordinator("node[007-009,12],a"), "node007:61443");
  EXPECT_EQ(coordinator("a,node[1-2]"), "a:61443");
  EXPECT_EQ(coordinator("rack[1-2]node[3,5]"), "rack1node3:61443");
  EXPECT_EQ(coordinator("n[4]-ib,x"), "n4-ib:61443");
}

// They run at the same time, with the same first host.
TEST(Launch, UsesAnotherPortInAnotherStep) {
  const auto coordinator = [](const std::string& job, const std::string& step) {
    return launch_in({{"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_JOB_ID", job},
                      {"SLURM_STEP_ID", step},
                      {"SLURM_STEP_NODELIST", "a"}})
        .coordinator;
  };
  EXPECT_EQ(coordinator("4099", "0"), "a:61443");
  EXPECT_EQ(coordinator("4099", "1"), "a:61540");
  EXPECT_EQ(coordinator("4095", "4294967290"), "a:64953");
}

// As in mpiexec of MPICH and Intel: an older PMI without an address to meet.
TEST(Launch, ReadsHydrasEnvironment) {
  std::map<std::string, std::string> variables = {
      {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const Launch launch = launch_in(variables);
  EXPECT_EQ(launch.launcher, Launcher::TCP);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_THAT(launch.local_rank, Optional(1));
  EXPECT_THAT(launch.local_size, Optional(2));
  EXPECT_EQ(with_coordinator(launch, "a:1").coordinator, "a:1");
  EXPECT_THROW(with_coordinator(launch, ""), Error);
  // Slurm started the launcher's helpers, one per host.
  variables["SLURM_PROCID"] = "1";
  variables["SLURM_STEP_NUM_TASKS"] = "2";
  EXPECT_EQ(launch_in(variables).rank, 3);
  EXPECT_EQ(launch_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).launcher, Launcher::NONE);
}

TEST(Launch, IsSlurmsIfPmi2Agrees) {
  const Launch launch = launch_in({{"SLURM_PROCID", "1"},
                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                   {"SLURM_JOB_ID", "4099"},
                                   {"SLURM_STEP_NODELIST", "a"},
                                   {"PMI_RANK", "1"},
                                   {"PMI_SIZE", "2"}});
  EXPECT_EQ(launch.coordinator, "a:61443");
}

TEST(Launch, RefusesSrunWithoutPmixAndPmi2) {
  EXPECT_THAT(error_in({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
              HasSubstr("srun --mpi=pmix"));
  EXPECT_THAT(error_in({{"SLURM_PROCID", "1"},
                        {"SLURM_STEP_NUM_TASKS", "2"},
                        {"SLURM_JOB_ID", "1"},
                        {"SLURM_STEP_NODELIST", "a["}}),
              HasSubstr("SLURM_STEP_NODELIST=a["));
}

TEST(Launch, FollowsTheKeys) {
  const Launch alone{.how = "one process: no launcher"};
  const Launch launch = configured_launch(alone, 3, 4, "a:1");
  EXPECT_EQ(launch.launcher, Launcher::TCP);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.coordinator, "a:1");
  EXPECT_TRUE(launch.has_own_console);
  EXPECT_EQ(configured_launch(alone, 0, 1, "").launcher, Launcher::NONE);
  EXPECT_EQ(configured_launch(alone, 0, 1, "a:1").launcher, Launcher::NONE);
  const Launch pod{.launcher = Launcher::TCP, .rank = 1, .size = 2, .coordinator = "b:2"};
  EXPECT_EQ(configured_launch(pod, 0, 1, "").coordinator, "b:2");
  EXPECT_EQ(configured_launch(pod, 0, 1, "c:3").coordinator, "c:3");
  EXPECT_EQ(configured_launch(pod, 1, 2, "").rank, 1);
  EXPECT_FALSE(configured_launch(pod, 1, 2, "")
                   .has_own_console);  // the launcher's information has precedence
  const auto error = [](const Launch& found, int64_t rank, std::optional<int64_t> size,
                        const char* coordinator) {
    try {
      configured_launch(found, rank, size, coordinator);
    } catch (const Error& thrown) {
      return std::string(thrown.what());
    }
    return std::string();
  };
  EXPECT_THAT(error(alone, 4, 4, "a:1"), HasSubstr("[process_id] 4 of num_processes=4"));
  EXPECT_THAT(error(alone, 0, 4, ""), HasSubstr("[coordinator_address]"));
  EXPECT_THAT(error(alone, 0, {}, "a:1"), HasSubstr("num_processes=N process_id=I"));
  EXPECT_THAT(error(pod, 0, 2, ""), HasSubstr("leave the keys out"));
  EXPECT_THAT(error(pod, 1, 3, ""), HasSubstr("this is process 1 of 2"));
}

// A batch job's script has the job's variables, but is one process.
TEST(Launch, IsAloneInABatchScript) {
  EXPECT_EQ(launch_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).launcher, Launcher::NONE);
}

TEST(Launch, LeavesTheSizeToPmixUnderPrterun) {
  const Launch launch = launch_in({{"PMIX_NAMESPACE", "prterun-a@1"}, {"PMIX_RANK", "3"}});
  EXPECT_EQ(launch.launcher, Launcher::PMIX);
  EXPECT_EQ(launch.rank, 3);
}

TEST(Launch, NamesAVariableThatIsNoNumber) {
  EXPECT_THAT(error_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "four"}}),
              HasSubstr("OMPI_COMM_WORLD_SIZE=four"));
  EXPECT_THAT(error_in({{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK=-1"));
  EXPECT_THAT(error_in({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
              HasSubstr("start at 0"));
  EXPECT_THAT(error_in({{"PMIX_NAMESPACE", "a"}}), HasSubstr("PMIX_RANK"));
}

}  // namespace
}  // namespace kinema::world
