#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kinema/environments/group.h"

namespace kinema::environments {

/// One step of a group with one discrete action for each environment.
inline GroupSteps step(Group& group, const std::vector<int32_t>& actions, bool reset = false) {
  const auto count = static_cast<int64_t>(actions.size());
  group.begin({{"action", HostArray::from<int32_t>(DType::S32, {count}, actions)}},
              std::vector<uint8_t>(actions.size(), reset ? 1 : 0));
  return group.end();
}

/// The same with one continuous action.
inline GroupSteps push(Group& group, const std::vector<float>& actions, bool reset = false) {
  const auto count = static_cast<int64_t>(actions.size());
  group.begin({{"action", HostArray::f32({count, 1}, actions)}},
              std::vector<uint8_t>(actions.size(), reset ? 1 : 0));
  return group.end();
}

inline std::vector<float> floats(const HostArray& x) {
  return {x.as<float>().begin(), x.as<float>().end()};
}

inline std::vector<int> bytes(const HostArray& x) {
  return {x.as<uint8_t>().begin(), x.as<uint8_t>().end()};
}

}  // namespace kinema::environments
