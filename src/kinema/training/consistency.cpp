#include "kinema/training/consistency.h"

#include <algorithm>
#include <cstring>

#include "kinema/core/error.h"
#include "kinema/training/step.h"

namespace kinema::training {

namespace {

[[noreturn]] void refuse(const runtime::Devices& devices, std::span<const size_t> odd,
                         const std::string& what) {
  constexpr size_t kShown = 8;
  std::string names;
  for (size_t i = 0; i < odd.size() && i < kShown; ++i) {
    names += (i == 0 ? "" : ", ") + runtime::device_text(devices, odd[i]);
  }
  if (odd.size() > kShown) {
    names += fmt::format(" and {} more", odd.size() - kShown);
  }
  fail(
      "[train] replicas differ: {} {} another {} than the {} others; this state is not saved\n"
      "  check devices, network and compiler flags (kinema flags check); resume from the last "
      "checkpoint",
      names, odd.size() == 1 ? "has" : "have", what,
      static_cast<size_t>(devices.total()) - odd.size());
}

std::string metrics_text(const HostArray& metrics) {
  const std::span<const float> values = metrics.as<float>();
  return fmt::format("{} and {}", values[StepGraph::LOSS], values[StepGraph::GRADIENT_NORM]);
}

void check_metrics(const ConsistencyCheck& of) {
  const std::vector<HostArray> copies = runtime::replica_values(of.metrics);
  const std::vector<size_t> odd = runtime::mismatched_replicas(copies);
  if (odd.empty()) {
    return;
  }
  size_t other = 0;
  while (std::ranges::count(odd, other) > 0) {
    ++other;
  }
  refuse(of.devices, odd,
         fmt::format("loss and gradient norm ({}, not {})", metrics_text(copies[odd.front()]),
                     metrics_text(copies[other])));
}

void check_squares(const ConsistencyCheck& of) {
  const std::vector<HostArray> copies = runtime::replica_values(of.squares);
  const std::vector<size_t> odd = runtime::mismatched_replicas(copies);
  if (odd.empty()) {
    return;
  }
  // The first entry that differs in this copy only names the gradient.
  std::string name = "a parameter";
  for (size_t i = 0; i < of.gradient_names.size(); ++i) {
    std::vector<HostArray> entry;
    for (const HostArray& copy : copies) {
      entry.push_back(HostArray::from<float>(DType::F32, {1}, copy.as<float>().subspan(i, 1)));
    }
    if (std::ranges::count(runtime::mismatched_replicas(entry), odd.front()) > 0) {
      name = of.gradient_names[i];
      break;
    }
  }
  refuse(of.devices, odd, "gradient of " + name);
}

void check_state(const ConsistencyCheck& of) {
  const std::vector<runtime::MismatchedReplica> found = of.check.find(of.state);
  if (found.empty()) {
    return;
  }
  std::vector<size_t> odd;
  for (const runtime::MismatchedReplica& each : found) {
    if (each.array == found.front().array) {
      odd.push_back(each.device);
    }
  }
  refuse(of.devices, odd, "`" + of.ports[found.front().array].name + "`");
}

}  // namespace

void check_consistency(const ConsistencyCheck& of) {
  if (of.metrics) {
    check_metrics(of);
    check_squares(of);
  }
  check_state(of);
}

}  // namespace kinema::training
