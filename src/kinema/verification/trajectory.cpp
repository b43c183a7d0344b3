#include "kinema/verification/trajectory.h"

#include <cmath>

namespace kinema::verification {
namespace {

float fake_output(float x, float t, float cond) {
  return (0.4F + t / 2000.0F) * x - 0.5F * cond + 0.1F * std::sin(3.0F * x);
}

HostArray stack_of(const HostArray& one, int64_t count) {
  Shape shape = one.shape;
  shape.dims.insert(shape.dims.begin(), count);
  return HostArray(shape);
}

}  // namespace

Followed follow(const schedulers::Schedule& schedule, const HostArray& x, const HostArray& cond,
                const HostArray* outputs) {
  Followed out{.samples = stack_of(x, schedule.size() + 1),
               .inputs = stack_of(x, schedule.size()),
               .outputs = stack_of(x, schedule.size())};
  const auto all = out.samples.as<float>();
  const auto start = x.as<float>();
  const auto c = cond.as<float>();
  const size_t n = start.size();
  for (size_t j = 0; j < n; ++j) {
    all[j] = start[j];
    float previous = 0;
    float m1 = 0;
    float m2 = 0;
    for (int64_t i = 0; i < schedule.size(); ++i) {
      const schedulers::StepCoefficients& k = schedule.steps[i];
      const float now = all[i * n + j];
      const float input = now * k.input;
      const float v = outputs != nullptr ? outputs->as<float>()[i * n + j]
                                         : fake_output(input, schedule.timesteps[i], c[j]);
      out.inputs.as<float>()[i * n + j] = input;
      out.outputs.as<float>()[i * n + j] = v;
      const float m0 = k.data_x * now + k.data_v * v;
      const float corrected = k.correct_x * now + k.correct_previous * previous +
                              k.correct_m0 * m0 + k.correct_m1 * m1 + k.correct_m2 * m2;
      all[(i + 1) * n + j] = k.from_c * corrected + k.from_m0 * m0 + k.from_m1 * m1 + k.from_v * v;
      previous = corrected;
      m2 = m1;
      m1 = m0;
    }
  }
  return out;
}

}  // namespace kinema::verification
