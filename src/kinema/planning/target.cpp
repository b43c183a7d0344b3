#include "kinema/planning/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>

#include "kinema/core/error.h"

namespace kinema::planning {
namespace {

constexpr int64_t kMostDevices = 65536;

/// `4x4` as numbers; empty for other text.
std::vector<int64_t> read_grid(std::string_view text) {
  std::vector<int64_t> grid;
  while (true) {
    int64_t size = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, size);
    if (error != std::errc() || size < 1 || size > kMostDevices) {
      return {};
    }
    grid.push_back(size);
    if (rest == end) {
      return grid;
    }
    if (*rest != 'x') {
      return {};
    }
    text.remove_prefix(static_cast<size_t>(rest - text.data()) + 1);
  }
}

std::string example(const Chip& chip) {
  if (chip.family != Family::TPU) {
    return chip.name + ":8";
  }
  return chip.name + (chip.grid_axes == 2 ? ":4x4" : ":2x2x1");
}

}  // namespace

std::string Target::platform() const {
  switch (chip.family) {
    case Family::CPU:
      return "cpu";
    case Family::TPU:
      return "tpu";
    case Family::CUDA:
      return "cuda";
  }
  fail("[plan] chip family {}", static_cast<int>(chip.family));
}

std::vector<int64_t> Target::grid_place(int64_t id) const {
  if (chip.family != Family::TPU) {
    return {};
  }
  std::vector<int64_t> place{id % chip.devices_per_chip};
  id /= chip.devices_per_chip;
  for (const int64_t size : read_grid(std::string_view(name).substr(name.find(':') + 1))) {
    place.push_back(id % size);
    id /= size;
  }
  return place;
}

std::string Target::topology_name() const { return chip.family == Family::TPU ? name : ""; }

pjrt::NamedValues Target::topology_options() const {
  if (chip.family != Family::CUDA) {
    return {};
  }
  return {{"target_config", gpu_description(chip)}, {"topology", fmt::format("1x1x{}", devices)}};
}

std::vector<std::pair<std::string, std::string>> Target::environment() const {
  if (chip.family != Family::TPU) {
    return {{"TF_CPP_MIN_LOG_LEVEL", "2"}};
  }
  // Without these, libtpu queries the network for the type of TPU, and waits for one that is in
  // use.
  return {{"TPU_SKIP_MDS_QUERY", "1"},
          {"TPU_ACCELERATOR_TYPE", fmt::format("{}-{}", chip.name, devices)},
          {"TPU_WORKER_HOSTNAMES", "localhost"},
          {"ALLOW_MULTIPLE_LIBTPU_LOAD", "1"},
          {"TPU_STDERR_LOG_LEVEL", "3"},
          {"TF_CPP_MIN_LOG_LEVEL", "2"}};
}

const Chip& chip_of_target(const std::string& text) {
  const std::span<const Chip> all = chips();
  const auto chip = std::ranges::find(all, text.substr(0, text.find(':')), &Chip::name);
  if (chip == all.end()) {
    std::vector<std::string_view> names;
    std::ranges::transform(all, std::back_inserter(names), &Chip::name);
    fail("[plan] target `{}` is not known\n  give one of {}, e.g. target=v6e:4x4", text,
         fmt::join(names, ", "));
  }
  return *chip;
}

Target parse_target(const std::string& text) {
  const Chip& chip = chip_of_target(text);
  Target out{.name = text, .chip = chip};
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    check(chip.family != Family::TPU, "[plan] target `{}` needs a number of chips: target={}", text,
          example(chip));
    return out;
  }
  const std::vector<int64_t> grid = read_grid(std::string_view(text).substr(colon + 1));
  const size_t axes = chip.family == Family::TPU ? static_cast<size_t>(chip.grid_axes) : 1;
  check(grid.size() == axes, "[plan] target `{}`: {} is given as {}, e.g. target={}", text,
        chip.name, axes == 1 ? "a count" : fmt::format("a grid of {} axes", axes), example(chip));
  for (const int64_t size : grid) {
    out.devices *= size;
    check(out.devices <= kMostDevices, "[plan] target `{}` has more than {} chips", text,
          kMostDevices);
  }
  out.devices *= chip.devices_per_chip;
  return out;
}

}  // namespace kinema::planning
