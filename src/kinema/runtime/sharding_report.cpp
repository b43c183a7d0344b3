#include "kinema/runtime/sharding_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace kinema::runtime {
namespace {

/// `heads -> tensor`; a replicated dimension has no arrow.
std::string dimension_text(const std::string& logical, const std::vector<std::string>& axes) {
  std::string name = logical.empty() ? "-" : logical;
  return axes.empty() ? name : fmt::format("{} -> {}", name, fmt::join(axes, " x "));
}

std::string placement_text(const Port& port, std::vector<std::string> logical) {
  logical.resize(port.shape.dims.size());
  std::vector<std::string> parts;
  for (size_t d = 0; d < logical.size(); ++d) {
    parts.push_back(dimension_text(logical[d], d < port.sharding.dims.size()
                                                   ? port.sharding.dims[d]
                                                   : std::vector<std::string>()));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

/// Combined collectives have dozens of results: the first few identify them.
std::string shortened(const std::string& shape) {
  constexpr size_t kShown = 56;
  return shape.size() <= kShown ? shape : shape.substr(0, kShown) + "...";
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::vector<std::string> tensor_lines(const mesh::Mesh& mesh, std::span<const Port> inputs,
                                      const LogicalAxes& logical) {
  std::vector<std::string> lines;
  lines.push_back(mesh.devices() == 0 ? "one device"
                                      : fmt::format("mesh {} over {} devices",
                                                    mesh::axes_text(mesh.axes), mesh.devices()));
  size_t widest = 0;
  for (const Port& port : inputs) {
    widest = std::max(widest, port.name.size());
  }
  int64_t held = 0;
  int64_t whole = 0;
  for (const Port& port : inputs) {
    lines.push_back(fmt::format("  {:<{}}  {}  {}  {} of {}", port.name, widest,
                                to_string(port.shape), placement_text(port, logical(port.name)),
                                bytes_text(port.shard.bytes()), bytes_text(port.shape.bytes())));
    held += port.shard.bytes();
    whole += port.shape.bytes();
  }
  lines.push_back(fmt::format("  each device holds {} of {}", bytes_text(held), bytes_text(whole)));
  return lines;
}

std::string axes_between(const mesh::Mesh& mesh, std::span<const int64_t> places) {
  std::vector<std::string> names;
  int64_t stride = mesh.devices();
  for (const auto& [name, size] : mesh.axes.axes) {
    stride /= size;
    const bool differs = std::ranges::any_of(places, [&, s = stride, n = size](int64_t place) {
      return place / s % n != places.front() / s % n;
    });
    if (differs) {
      names.push_back(name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> collective_lines(const mesh::Mesh& mesh,
                                          std::span<const pjrt::Collective> collectives) {
  // kind, shape, axes, origin -> bytes of one, number.
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  std::map<Key, std::pair<int64_t, int64_t>> kinds;
  int64_t total = 0;
  for (const pjrt::Collective& each : collectives) {
    auto& [bytes, times] =
        kinds[{each.kind, each.shape, axes_between(mesh, each.group), each.origin}];
    bytes = each.bytes;
    times += each.times;
    total += each.bytes * each.times;
  }
  std::vector<std::pair<Key, std::pair<int64_t, int64_t>>> sorted(kinds.begin(), kinds.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) {
    return a.second.first * a.second.second > b.second.first * b.second.second;
  });
  std::vector<std::string> lines{fmt::format(
      "collectives: {}, whose results are {} on each device",
      sorted.empty() ? "none" : fmt::format("{} kinds", sorted.size()), bytes_text(total))};
  for (const auto& [key, count] : sorted) {
    const auto& [kind, shape, axes, origin] = key;
    lines.push_back(fmt::format("  {:<18} {:>5} x {:<9} over {:<16} {}  {}", kind, count.second,
                                bytes_text(count.first), axes.empty() ? "-" : axes,
                                shortened(shape), origin.empty() ? "(no origin)" : origin));
  }
  return lines;
}

std::vector<std::string> sharding_report(const mesh::Mesh& mesh, const Program& program,
                                         const LogicalAxes& logical) {
  std::vector<std::string> lines = tensor_lines(mesh, program.inputs(), logical);
  if (program.pieces() != nullptr) {
    return lines;  // on one device
  }
  const std::vector<std::string> moved =
      collective_lines(mesh, pjrt::collectives(program.executable().optimized()));
  lines.insert(lines.end(), moved.begin(), moved.end());
  return lines;
}

}  // namespace kinema::runtime
