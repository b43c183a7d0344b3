#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/io/safetensors.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::schedulers {
namespace {

const std::filesystem::path kCase =
    std::filesystem::path(KINEMA_SOURCE_DIR) / "tests/golden/io/sched.safetensors";

std::vector<float> floats(const io::SafetensorsFile& file, const std::string& name) {
  const HostArray array = file.at(name).copy();
  if (array.shape.dtype == DType::S64) {
    const auto values = array.as<int64_t>();
    return {values.begin(), values.end()};
  }
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

struct Grid {
  std::string key;
  ScheduleConfig config;
  int64_t steps;
};

std::vector<Grid> grids() {
  std::vector<Grid> out;
  for (const auto& [kind, sampler] :
       {std::pair{"unipc", Sampler::UNIPC}, std::pair{"euler", Sampler::FLOW_MATCH_EULER}}) {
    for (const int shift : {3, 5, 8}) {
      for (const int steps : {2, 4, 20, 50}) {
        out.push_back(
            {.key = kind + (".shift" + std::to_string(shift)) + ".steps" + std::to_string(steps),
             .config = {.sampler = sampler, .shift = static_cast<double>(shift)},
             .steps = steps});
      }
    }
  }
  out.push_back({.key = "unipc.shift5.steps8", .config = {.shift = 5.0}, .steps = 8});
  out.push_back({.key = "unipc.shift3.steps1", .config = {.shift = 3.0}, .steps = 1});
  return out;
}

// The model's inputs must equal the reference's, bit for bit.
TEST(SchedulerReference, TimestepsAreExact) {
  const auto file = io::SafetensorsFile::open(kCase);
  for (const Grid& grid : grids()) {
    SCOPED_TRACE(grid.key);
    EXPECT_EQ(make_schedule(grid.config, grid.steps).timesteps,
              floats(file, grid.key + ".timesteps"));
  }
}

TEST(SchedulerReference, SigmasAreExact) {
  const auto file = io::SafetensorsFile::open(kCase);
  for (const Grid& grid : grids()) {
    SCOPED_TRACE(grid.key);
    EXPECT_EQ(make_schedule(grid.config, grid.steps).sigmas, floats(file, grid.key + ".sigmas"));
  }
}

TEST(SchedulerReference, TheTrainingTableIsExact) {
  const auto file = io::SafetensorsFile::open(kCase);
  const TrainingTable table = euler_training_table(3.0);

  EXPECT_EQ(table.sigmas, floats(file, "euler.train.sigmas"));
  EXPECT_EQ(table.timesteps, floats(file, "euler.train.timesteps"));
}

/// The end of a trajectory from `x` with the velocity (0.4 + t/2000) x - 0.5 c + 0.1 sin(3 x).
double final_sample(const Schedule& schedule, double x, double c) {
  double previous = 0;
  double m1 = 0;
  double m2 = 0;
  for (int64_t i = 0; i < schedule.size(); ++i) {
    const StepCoefficients& k = schedule.steps[i];
    const double v = (0.4 + schedule.timesteps[i] / 2000.0) * x - 0.5 * c + 0.1 * std::sin(3.0 * x);
    const double m0 = k.data_x * x + k.data_v * v;
    const double corrected = k.correct_x * x + k.correct_previous * previous + k.correct_m0 * m0 +
                             k.correct_m1 * m1 + k.correct_m2 * m2;
    x = k.from_c * corrected + k.from_m0 * m0 + k.from_m1 * m1 + k.from_v * v;
    previous = corrected;
    m2 = m1;
    m1 = m0;
  }
  return x;
}

// The reference ran in float32; it differs from its own float64 run by 1e-6.
TEST(SchedulerReference, TrajectoriesEndWhereTheReferenceEnds) {
  const auto file = io::SafetensorsFile::open(kCase);
  const auto start = floats(file, "initial_sample");
  const auto cond = floats(file, "cond");
  for (const Grid& grid : grids()) {
    SCOPED_TRACE(grid.key);
    const Schedule schedule = make_schedule(grid.config, grid.steps);
    const bool traced = file.find(grid.key + ".samples") != nullptr;
    auto finals = floats(file, grid.key + (traced ? ".samples" : ".final"));
    finals.erase(finals.begin(), finals.end() - static_cast<int64_t>(start.size()));
    for (size_t i = 0; i < start.size(); ++i) {
      EXPECT_NEAR(final_sample(schedule, start[i], cond[i]), finals[i], 3e-6);
    }
  }
}

}  // namespace
}  // namespace kinema::schedulers
