#include "kinema/planning/sweep.h"

#include <gmock/gmock.h>

#include "kinema/core/error.h"
#include "kinema/planning/compiler_error.h"

namespace kinema::planning {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using MeshSizes = std::array<int64_t, 4>;

std::vector<MeshSizes> meshes_of(const std::vector<Candidate>& all) {
  std::vector<MeshSizes> out;
  for (const Candidate& c : all) {
    out.push_back(c.mesh);
  }
  return out;
}

TEST(Candidates, AreTheMeshesThatEverythingDividesOver) {
  const SweepSpace space{.devices = 4, .remat = {"FULL"}, .batches = {1}, .heads = 2, .width = 8};
  // One sample is not divisible over data or fsdp; two heads not over tensor=4.
  EXPECT_THAT(meshes_of(candidates(space)),
              ElementsAre(MeshSizes{1, 1, 2, 2}, MeshSizes{1, 1, 4, 1}));
}

TEST(Candidates, StartWithWhatTakesLeast) {
  const SweepSpace space{.devices = 1, .remat = {"NONE", "FULL"}, .batches = {2, 1}};
  EXPECT_THAT(candidates(space),
              ElementsAre(Candidate{{1, 1, 1, 1}, "FULL", 1}, Candidate{{1, 1, 1, 1}, "NONE", 1},
                          Candidate{{1, 1, 1, 1}, "FULL", 2}, Candidate{{1, 1, 1, 1}, "NONE", 2}));
}

TEST(Candidates, RefuseAMeshOfOtherSize) {
  EXPECT_THAT(
      [] {
        candidates({.devices = 4, .meshes = {{1, 1, 2, 1}}, .remat = {"FULL"}, .batches = {1}});
      },
      ThrowsMessage<Error>(HasSubstr("has 2 devices, the target 4")));
}

TEST(ParseMesh, ReadsAxesWithTheirSizes) {
  EXPECT_EQ(parse_mesh("context:2,tensor:4"), (MeshSizes{1, 1, 2, 4}));
  for (const char* wrong : {"", "context", "context:0", "context:x", "depth:2", "context:2,"}) {
    EXPECT_THROW(parse_mesh(wrong), Error) << wrong;
  }
}

Report of_size(int64_t temporary, double flops) {
  Report report;
  report.target = parse_target("v6e:2x2");
  report.compiled.memory.temporary = temporary;
  report.compiled.memory_limit = 100;
  report.flops.wide = flops;
  return report;
}

TEST(Sweep, LeavesOutWhatTakesMoreThanWhatDoesNotFit) {
  const std::vector<Candidate> all = {{{1, 1, 4, 1}, "FULL", 1},
                                      {{1, 1, 4, 1}, "NONE", 1},
                                      {{1, 1, 4, 1}, "FULL", 2},
                                      {{1, 1, 4, 1}, "NONE", 2}};
  int tried = 0;
  int seen = 0;
  const std::vector<Outcome> outcomes = sweep(
      all,
      [&](const Candidate& c) {
        ++tried;
        if (c.remat == "NONE") {
          throw OutOfMemory("too much", 200, 100);
        }
        return of_size(50 * c.batch, 1e12);
      },
      [&](const Outcome&) { ++seen; });
  EXPECT_EQ(tried, 3);
  EXPECT_EQ(seen, 4);
  EXPECT_TRUE(outcomes[3].skipped);
  EXPECT_THAT(outcomes[1].problem, HasSubstr("200 B"));
  EXPECT_TRUE(outcomes[2].report->fits());
}

TEST(Sweep, GoesOnAfterAnError) {
  const std::vector<Candidate> all = {{{1, 1, 4, 1}, "FULL", 1}, {{1, 1, 4, 1}, "FULL", 2}};
  const std::vector<Outcome> outcomes = sweep(
      all,
      [](const Candidate& c) -> Report {
        check(c.batch > 1, "[plan] refused\n  remedy");
        return of_size(1, 1e12);
      },
      [](const Outcome&) {});
  EXPECT_EQ(outcomes[0].problem, "[plan] refused");
  EXPECT_TRUE(outcomes[1].report.has_value());
}

TEST(Rank, PutsTheLeastTimeForASampleFirst) {
  const auto outcome = [](int64_t batch, Report report) {
    Outcome out{.candidate = {{1, 1, 4, 1}, "FULL", batch}};
    out.report = std::move(report);
    return out;
  };
  std::vector<Outcome> all = {outcome(1, of_size(10, 2e12)), outcome(2, of_size(20, 3e12)),
                              outcome(4, of_size(500, 1e12)), outcome(8, of_size(5, 16e12))};
  Outcome refused{.candidate = {{1, 1, 4, 1}, "NONE", 16}};
  refused.problem = "refused";
  all.push_back(refused);
  rank(all);
  // 1.5 per sample, then twice 2 with the smaller one first; then those that do not fit.
  std::vector<int64_t> order;
  for (const Outcome& each : all) {
    order.push_back(each.candidate.batch);
  }
  EXPECT_THAT(order, ElementsAre(2, 8, 1, 4, 16));
  EXPECT_THAT(outcome_line(all[0]), HasSubstr("context=4"));
}

}  // namespace
}  // namespace kinema::planning
