#include "kinema/environments/dummy.h"

#include <algorithm>

namespace kinema::environments {

Dummy::Dummy(Settings& settings, const Seed& seed, Actions kind)
    : Episodic(settings.task(), seed), length_(settings.whole("length", 100, 1, 1'000'000)) {
  observations_["image"] = {DType::U8, {64, 64, 3}, 0, 256};
  observations_["vector"] = {DType::F32, {7}};
  observations_["token"] = {DType::S32, {}, 0, 256};
  observations_["count"] = {DType::F32, {}, 0.0, static_cast<double>(length_)};
  observations_["float2d"] = {DType::F32, {4, 5}};
  observations_["int2d"] = {DType::S32, {2, 3}, 0, 4};
  actions_["action"] =
      kind == Actions::DISCRETE ? Space{DType::S32, {}, 0, 5} : Space{DType::F32, {6}};
}

void Dummy::start(RandomStream& /*random*/) { count_ = 0; }

Outcome Dummy::act(const Arrays& /*action*/) {
  ++count_;
  return {.reward = 1.0F, .is_terminal = count_ >= length_};
}

Arrays Dummy::observe() const {
  // Each element has a value of its own, which changes with every step.
  Arrays out;
  for (const auto& [name, space] : observations_) {
    HostArray& values = out[name] = HostArray(Shape{space.dtype, space.shape});
    if (name == "count") {
      values.as<float>()[0] = static_cast<float>(count_);
    } else if (space.dtype == DType::U8) {
      std::ranges::generate(values.as<uint8_t>(),
                            [i = count_]() mutable { return static_cast<uint8_t>(i++); });
    } else if (space.dtype == DType::S32) {
      std::ranges::generate(values.as<int32_t>(),
                            [i = count_, classes = space.classes()]() mutable {
                              return static_cast<int32_t>(i++ % classes);
                            });
    } else {
      std::ranges::generate(values.as<float>(), [i = count_]() mutable {
        constexpr int64_t kPeriod = 16;
        return static_cast<float>(i++ % kPeriod) / static_cast<float>(kPeriod);
      });
    }
  }
  return out;
}

}  // namespace kinema::environments
