#include "kinema/world/place.h"

#include <gmock/gmock.h>

#include <map>

#include "kinema/core/error.h"

namespace kinema::world {
namespace {

using testing::HasSubstr;
using testing::Optional;

Place place_in(const std::map<std::string, std::string>& variables) {
  return find_place([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_in(const std::map<std::string, std::string>& variables) {
  try {
    place_in(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Place, IsAloneWithoutALauncher) {
  const Place place = place_in({});
  EXPECT_EQ(place.launcher, Launcher::NONE);
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.size, 1);
}

TEST(Place, ReadsOpenMpisEnvironment) {
  const Place place = place_in({{"OMPI_COMM_WORLD_RANK", "2"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"PMIX_NAMESPACE", "a"},
                                {"PMIX_RANK", "2"}});
  EXPECT_EQ(place.launcher, Launcher::PMIX);
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.size, 4);
  EXPECT_THAT(place.local_rank, Optional(0));
  EXPECT_THAT(place.local_size, Optional(2));
  EXPECT_THAT(place.how, HasSubstr("mpirun"));
}

// As in mpirun -np 1: nothing needs to be loaded.
TEST(Place, IsAloneAsTheOnlyOneOfALauncher) {
  const Place place = place_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(place.launcher, Launcher::NONE);
}

TEST(Place, ReadsSlurmsStep) {
  const Place place = place_in({{"SLURM_PROCID", "1"},
                                {"SLURM_STEP_NUM_TASKS", "2"},
                                {"SLURM_LOCALID", "1"},
                                {"PMIX_NAMESPACE", "slurm.pmix.7.0"},
                                {"PMIX_RANK", "1"}});
  EXPECT_EQ(place.launcher, Launcher::PMIX);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.size, 2);
}

TEST(Place, RefusesSrunWithoutPmix) {
  EXPECT_THAT(error_in({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
              HasSubstr("srun --mpi=pmix"));
}

// The script of a batch job has the job's variables, but is one process.
TEST(Place, IsAloneInABatchScript) {
  EXPECT_EQ(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).launcher, Launcher::NONE);
}

TEST(Place, LeavesTheSizeToPmixUnderPrterun) {
  const Place place = place_in({{"PMIX_NAMESPACE", "prterun-a@1"}, {"PMIX_RANK", "3"}});
  EXPECT_EQ(place.launcher, Launcher::PMIX);
  EXPECT_EQ(place.rank, 3);
}

TEST(Place, NamesAVariableThatIsNoNumber) {
  EXPECT_THAT(error_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "four"}}),
              HasSubstr("OMPI_COMM_WORLD_SIZE=four"));
  EXPECT_THAT(error_in({{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK=-1"));
  EXPECT_THAT(error_in({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
              HasSubstr("begin with 0"));
  EXPECT_THAT(error_in({{"PMIX_NAMESPACE", "a"}}), HasSubstr("PMIX_RANK"));
}

}  // namespace
}  // namespace kinema::world
