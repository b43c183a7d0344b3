#include <cstdlib>
#include <optional>
#include <string_view>

#include "kinema/schedulers/schedule.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/session.h"
#include "kinema/verification/trajectory.h"

namespace kinema::verification {
namespace {

using schedulers::Schedule;
using schedulers::ScheduleConfig;

constexpr Limit kSigma{.absolute = 1e-6};
constexpr Limit kSample{.absolute = 1e-5};

/// `unipc.shift3.steps20`
struct Trajectory {
  std::string key;
  ScheduleConfig config;
  int64_t steps = 0;
};

/// The number behind `word` in a dotted name.
std::optional<double> number_after(const std::string& key, std::string_view word) {
  const size_t at = key.find(word);
  if (at == std::string::npos) {
    return {};
  }
  char* end = nullptr;
  const double value = std::strtod(key.c_str() + at + word.size(), &end);
  return end == key.c_str() + at + word.size() ? std::nullopt : std::optional(value);
}

/// Every `KIND.shiftS.stepsN` of the case.
std::vector<Trajectory> trajectories(const Case& c) {
  constexpr std::string_view kEnd = ".timesteps";
  std::vector<Trajectory> out;
  for (const std::string& name : c.names("")) {
    const std::string key = name.substr(0, name.size() - std::min(name.size(), kEnd.size()));
    const auto shift = number_after(key, ".shift");
    const auto steps = number_after(key, ".steps");
    if (name.ends_with(kEnd) && shift.has_value() && steps.has_value()) {
      out.push_back(
          {.key = key,
           .config = {.sampler = schedulers::sampler_from_string(key.substr(0, key.find('.'))),
                      .shift = *shift},
           .steps = static_cast<int64_t>(*steps)});
    }
  }
  return out;
}

HostArray as_f32(const std::vector<float>& values) {
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

HostArray last_of(const HostArray& samples, const Shape& shape) {
  HostArray out(shape);
  std::copy(samples.bytes.end() - shape.bytes(), samples.bytes.end(), out.bytes.begin());
  return out;
}

void add_trajectory(std::vector<Row>& rows, const Case& c, const Trajectory& trajectory) {
  const std::string& key = trajectory.key;
  const Schedule schedule = schedulers::make_schedule(trajectory.config, trajectory.steps);
  const auto add = [&](const char* what, const HostArray& value, const Limit& limit) {
    const std::string tensor = key + "." + what;
    if (c.has(tensor)) {
      rows.push_back(compare(c.name(), tensor, value, c.tensor(tensor), limit));
    }
  };
  add("timesteps", as_f32(schedule.timesteps), {});
  add("sigmas", as_f32(schedule.sigmas), kSigma);

  const HostArray x = c.tensor("initial_sample");
  const HostArray cond = c.tensor("cond");
  check(x.shape == cond.shape && x.shape.dtype == DType::F32,
        "[verify] initial_sample is {} but cond is {}", to_string(x.shape), to_string(cond.shape));
  HostArray outputs;
  if (c.has(key + ".model_outputs")) {
    outputs = c.tensor(key + ".model_outputs");
    check(outputs.shape.elements() == x.shape.elements() * schedule.size(),
          "[verify] {}.model_outputs is {}, expected {} times {}", key, to_string(outputs.shape),
          schedule.size(), to_string(x.shape));
  }
  const HostArray samples =
      follow(schedule, x, cond, outputs.bytes.empty() ? nullptr : &outputs).samples;
  add("samples", samples, kSample);
  add("final", last_of(samples, x.shape), kSample);
}

}  // namespace

std::vector<Row> scheduler_rows(const Case& c, Session& /*session*/) {
  std::vector<Row> rows;
  for (const Trajectory& trajectory : trajectories(c)) {
    try {
      add_trajectory(rows, c, trajectory);
    } catch (const Error& error) {
      rows.push_back(failed(c.name(), trajectory.key, error.what()));
    }
  }
  if (c.has("euler.train.sigmas")) {
    const HostArray sigmas = c.tensor("euler.train.sigmas");
    const std::string about = c.about().at("euler.train.*").as_string();
    const auto table = schedulers::euler_training_table(number_after(about, "shift ").value_or(3.0),
                                                        sigmas.shape.elements());
    rows.push_back(compare(c.name(), "euler.train.sigmas", as_f32(table.sigmas), sigmas, kSigma));
    rows.push_back(compare(c.name(), "euler.train.timesteps", as_f32(table.timesteps),
                           c.tensor("euler.train.timesteps"), {}));
  }
  return rows;
}

}  // namespace kinema::verification
