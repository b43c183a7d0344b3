// step_environments TASK SETTINGS COUNT SEED PYTHON ACTIONS RESULT: steps a group with the actions
// of a safetensors file ([steps, n, ...] by name), and writes what it returned into another one.
// The first step is a reset. For tests that compare it with another implementation.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "kinema/environments/group.h"
#include "kinema/io/safetensors.h"

namespace kinema::environments {
namespace {

/// Part [...] of an array [steps, ...].
HostArray at_step(const HostArray& all, int64_t step) {
  HostArray out(Shape{all.shape.dtype, Dims(all.shape.dims.begin() + 1, all.shape.dims.end())});
  std::memcpy(out.bytes.data(), all.bytes.data() + static_cast<size_t>(step) * out.bytes.size(),
              out.bytes.size());
  return out;
}

/// Appends a step to an array [steps, ...].
void append(HostArray& all, const HostArray& step) {
  if (all.bytes.empty()) {
    all.shape = {step.shape.dtype, {0}};
    all.shape.dims.insert(all.shape.dims.end(), step.shape.dims.begin(), step.shape.dims.end());
  }
  ++all.shape.dims[0];
  all.bytes.insert(all.bytes.end(), step.bytes.begin(), step.bytes.end());
}

void run(const std::vector<std::string>& words) {
  const int64_t count = std::stoll(words[3]);
  const auto group = open_group({.task = words[1],
                                 .count = count,
                                 .seed = std::stoull(words[4]),
                                 .settings = words[2],
                                 .python = words[5]});
  const io::SafetensorsFile file = io::SafetensorsFile::open(words[6]);
  Arrays actions;
  for (const auto& [name, space] : group->actions()) {
    actions[name] = file.at(name).copy();
  }
  std::map<std::string, HostArray> out;
  const int64_t steps = actions.begin()->second.shape.dims[0];
  for (int64_t i = 0; i < steps; ++i) {
    Arrays now;
    for (const auto& [name, all] : actions) {
      now[name] = at_step(all, i);
    }
    group->begin(now, std::vector<uint8_t>(static_cast<size_t>(count), i == 0 ? 1 : 0));
    const GroupSteps step = group->end();
    for (const auto& [name, values] : step.observations) {
      append(out["observation." + name], values);
    }
    for (const auto& [name, values] : step.log) {
      append(out["log." + name], values);
    }
    append(out["reward"], HostArray::f32({count}, step.reward));
    append(out["is_first"], HostArray::from<uint8_t>(DType::U8, {count}, step.is_first));
    append(out["is_last"], HostArray::from<uint8_t>(DType::U8, {count}, step.is_last));
    append(out["is_terminal"], HostArray::from<uint8_t>(DType::U8, {count}, step.is_terminal));
  }
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, values] : out) {
    entries.push_back(io::TensorEntry::of(name, values));
  }
  io::write_safetensors(words[7], entries);
}

}  // namespace
}  // namespace kinema::environments

int main(int argc, char** argv) {
  constexpr int kWords = 8;
  if (argc != kWords) {
    std::fprintf(stderr, "step_environments TASK SETTINGS COUNT SEED PYTHON ACTIONS RESULT\n");
    return EXIT_FAILURE;
  }
  try {
    kinema::environments::run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
