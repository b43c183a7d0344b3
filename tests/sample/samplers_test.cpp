#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/schedulers/samplers.h"
#include "sample/temporary_folder.h"

namespace kinema::sample {
namespace {

using io::Json;
using schedulers::Schedule;
using schedulers::ScheduleConfig;
using schedulers::StepCoefficients;
using schedulers::StepForm;

const std::filesystem::path kCases =
    std::filesystem::path(KINEMA_SOURCE_DIR) / "tests/golden/samplers.json";
constexpr int64_t kCount = 8;

/// The formulas of tools/golden/samplers.py.
double noise(int64_t step, int64_t j) {
  return 1.3 *
         std::sin(12.9898 * static_cast<double>(step + 1) + 78.233 * static_cast<double>(j + 1));
}
double output(double x, double t, int64_t j) {
  return (0.4 + t / 2000.0) * x - 0.5 * std::cos(static_cast<double>(j + 1)) +
         0.1 * std::sin(3.0 * x);
}

double quantile(std::vector<double> values, double ratio) {
  std::ranges::sort(values);
  const double at = ratio * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - std::floor(at)) * (values[high] - values[low]);
}

void limit(std::vector<double>& data, const StepForm& form) {
  double bound = form.bound;
  double scale = form.scale;
  if (form.limit == StepForm::Limit::NONE) {
    return;
  }
  if (form.limit == StepForm::Limit::THRESHOLD) {
    std::vector<double> sizes;
    for (const double each : data) {
      sizes.push_back(std::abs(each));
    }
    bound = std::clamp(quantile(sizes, form.ratio), 1.0, form.bound);
    scale = bound;
  }
  for (double& each : data) {
    each = std::clamp(each, -bound, bound) / scale;
  }
}

/// The last sample from linspace(-1.5, 1.5, 8) times the initial scale.
std::vector<double> finals(const Schedule& schedule) {
  using Values = std::vector<double>;
  Values x;
  for (int64_t j = 0; j < kCount; ++j) {
    x.push_back(schedule.initial_scale * (-1.5 + 3.0 * static_cast<double>(j) / 7.0));
  }
  const Values zeros(kCount, 0.0);
  Values previous = zeros;
  Values m1 = zeros;
  Values m2 = zeros;
  Values m3 = zeros;
  for (int64_t i = 0; i < schedule.size(); ++i) {
    const StepCoefficients& k = schedule.steps[i];
    Values v;
    Values m0;
    for (int64_t j = 0; j < kCount; ++j) {
      v.push_back(output(k.input * x[j], schedule.timesteps[i], j));
      m0.push_back(k.data_x * x[j] + k.data_v * v[j]);
    }
    limit(m0, schedule.form);
    for (int64_t j = 0; j < kCount; ++j) {
      const double c = k.correct_x * x[j] + k.correct_previous * previous[j] +
                       k.correct_m0 * m0[j] + k.correct_m1 * m1[j] + k.correct_m2 * m2[j] +
                       k.correct_m3 * m3[j];
      x[j] = k.from_c * c + k.from_m0 * m0[j] + k.from_m1 * m1[j] + k.from_m2 * m2[j] +
             k.from_m3 * m3[j] + k.from_v * v[j] + k.from_x * x[j] + k.from_previous * previous[j] +
             k.from_noise * noise(i, j);
      previous[j] = c;
    }
    if (k.is_kept) {
      m3 = m2;
      m2 = m1;
      m1 = m0;
    }
  }
  return x;
}

std::vector<double> numbers(const Json& of, std::string_view key) {
  std::vector<double> out;
  if (const Json* values = of.find(key)) {
    for (const Json& each : values->items()) {
      out.push_back(each.as_number());
    }
  }
  return out;
}

ScheduleConfig config_of(const Json& of, const TemporaryFolder& folder) {
  Json file = of.at("config");
  file.set("_class_name", of.at("class").as_string());
  folder.write("c.json", file.dump(-1));
  ScheduleConfig out = read_scheduler_config(folder.path() / "c.json");
  out.even_sigmas = of.find("even") != nullptr;
  out.levels.sigmas = numbers(of, "sigmas");
  out.levels.timesteps = numbers(of, "timesteps");
  return out;
}

// The reference runs in float32 and kinema's coefficients are rounded to it: a few roundings a
// step, of samples whose range is that of the largest final or, at the start, of the initial scale.
TEST(SamplersReference, EndWhereDiffusersEnds) {
  const TemporaryFolder folder;
  const Json file = Json::read(kCases);
  for (const Json& of : file.at("cases").items()) {
    SCOPED_TRACE(of.at("name").as_string() + " " + of.at("class").as_string() + " " +
                 of.at("config").dump(-1));
    const Schedule schedule = schedulers::make_schedule(
        config_of(of, folder), of.at("steps").as_int(), file.at("tokens").as_int());
    const std::vector<double> visited = numbers(of, "timesteps_visited");
    ASSERT_EQ(schedule.timesteps.size(), visited.size());
    for (size_t i = 0; i < visited.size(); ++i) {
      // Those found from a sigma by logarithms have their rounding; whole ones are exact.
      const bool is_whole = visited[i] == std::floor(visited[i]);
      EXPECT_NEAR(schedule.timesteps[i], visited[i], is_whole ? 1e-3 : 2e-3) << "timestep " << i;
    }
    EXPECT_NEAR(schedule.initial_scale, of.at("scale").as_number(),
                1e-6 * of.at("scale").as_number());
    const std::vector<double> expected = numbers(of, "finals");
    const std::vector<double> found = finals(schedule);
    double range = 1.0;
    for (const double each : expected) {
      range = std::max(range, std::abs(each));
    }
    for (size_t j = 0; j < expected.size(); ++j) {
      EXPECT_NEAR(found[j], expected[j], 1e-5 * range) << "number " << j;
    }
  }
}

}  // namespace
}  // namespace kinema::sample
