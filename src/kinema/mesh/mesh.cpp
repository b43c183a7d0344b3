#include "kinema/mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "kinema/core/error.h"
#include "kinema/mesh/torus.h"

namespace kinema::mesh {
namespace {

constexpr std::array<std::string_view, 4> kAxes = {"data", "fsdp", "context", "tensor"};

int64_t configured(const Settings& settings, std::string_view network, std::string_view axis) {
  const bool dcn = network == "dcn";
  if (axis == "data") return dcn ? settings.dcn_data_parallelism : settings.ici_data_parallelism;
  if (axis == "fsdp") return dcn ? settings.dcn_fsdp_parallelism : settings.ici_fsdp_parallelism;
  if (axis == "context")
    return dcn ? settings.dcn_context_parallelism : settings.ici_context_parallelism;
  return dcn ? settings.dcn_tensor_parallelism : settings.ici_tensor_parallelism;
}

std::string key_of(std::string_view network, std::string_view axis) {
  return fmt::format("{}_{}_parallelism", network, axis);
}

void check_names(const Settings& settings) {
  std::set<std::string> seen;
  for (const std::string& axis : settings.mesh_axes) {
    check(std::ranges::find(kAxes, axis) != kAxes.end(),
          "[mesh] mesh_axes has `{}`, but axes are {}", axis, fmt::join(kAxes, ", "));
    check(seen.insert(axis).second, "[mesh] mesh_axes has `{}` twice", axis);
  }
  check(!seen.empty(), "[mesh] mesh_axes is empty: the axes are {}", fmt::join(kAxes, ", "));
  for (const std::string_view axis : kAxes) {
    for (const std::string_view network : {"dcn", "ici"}) {
      check(seen.contains(std::string(axis)) || configured(settings, network, axis) <= 1,
            "[mesh] {} is {} but mesh_axes has no `{}`", key_of(network, axis),
            configured(settings, network, axis), axis);
    }
  }
}

/// The product of a network's sizes, for messages.
std::string product_text(std::string_view network, const std::vector<std::string>& axes,
                         std::span<const int64_t> sizes) {
  std::vector<std::string> factors;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] != 1) {
      factors.push_back(fmt::format("{}={}", key_of(network, axes[i]), sizes[i]));
    }
  }
  return factors.empty() ? fmt::format("every {}_*_parallelism of 1", network)
                         : fmt::format("{}", fmt::join(factors, " x "));
}

/// The sizes of one network, with -1 filled in. Their product must be `total`, a number of `what`.
std::vector<int64_t> network_sizes(const Settings& settings, std::string_view network,
                                   int64_t total, std::string_view what) {
  const std::vector<std::string>& axes = settings.mesh_axes;
  std::vector<int64_t> sizes;
  std::vector<std::string> open;  // keys with the value -1
  int64_t product = 1;
  for (const std::string& axis : axes) {
    const int64_t size = configured(settings, network, axis);
    check(size == -1 || size > 0,
          "[mesh] {} is {}: give a size of at least 1, or -1 for what is left",
          key_of(network, axis), size);
    sizes.push_back(size);
    if (size == -1) {
      open.push_back(key_of(network, axis));
    } else {
      product *= size;
    }
  }
  check(
      open.size() <= 1,
      "[mesh] {} are -1, but only one axis of a network can take what the others leave\n  set all "
      "but one of them to a size: {}=1",
      fmt::join(open, " and "), open.empty() ? "" : open.back());
  const std::string as_slices =
      network == "dcn" && total == 1
          ? fmt::format("; compile_topology_num_slices={} takes the devices of one as so many",
                        product)
          : "";
  if (open.empty()) {
    check(product == total,
          "[mesh] {} makes {}, but the number of {} is {}\n  change the sizes until their product "
          "is {}, or set one of them to -1{}",
          product_text(network, axes, sizes), product, what, total, total, as_slices);
    return sizes;
  }
  const auto at = std::ranges::find(sizes, -1);
  *at = 1;
  check(total % product == 0,
        "[mesh] {}=-1 takes what the others leave, but {} makes {}, which does not divide the "
        "number of "
        "{}, {}\n  the others' product must be {}{}",
        open[0], product_text(network, axes, sizes), product, what, total, divisors_text(total),
        as_slices);
  *at = total / product;
  return sizes;
}

using Slice = std::vector<Device>;

/// The devices of each slice, in the order of their ids.
std::vector<Slice> slices_of(std::span<const Device> devices, int64_t wanted) {
  std::map<int64_t, Slice> by_slice;
  for (const Device& device : devices) {
    by_slice[device.slice].push_back(device);
  }
  for (auto& [slice, members] : by_slice) {
    std::ranges::sort(members, {}, &Device::id);
  }
  std::vector<Slice> slices;
  if (wanted > 0) {
    Slice all;
    for (auto& [slice, members] : by_slice) {
      all.insert(all.end(), members.begin(), members.end());
    }
    const auto count = static_cast<int64_t>(all.size());
    check(count % wanted == 0,
          "[mesh] compile_topology_num_slices is {}, which does not divide {} devices\n  {} would",
          wanted, count, divisors_text(count));
    for (int64_t i = 0; i < wanted; ++i) {
      slices.emplace_back(all.begin() + i * (count / wanted),
                          all.begin() + (i + 1) * (count / wanted));
    }
    return slices;
  }
  for (auto& [slice, members] : by_slice) {
    check(slices.empty() || slices.front().size() == members.size(),
          "[mesh] slice {} has {} devices but another one has {}: slices must be equal", slice,
          members.size(), slices.empty() ? 0 : slices.front().size());
    slices.push_back(std::move(members));
  }
  return slices;
}

/// A slice's device ids, in row-major order of its part of the mesh.
std::vector<int64_t> rows_of(const Slice& slice, const Settings& settings,
                             std::span<const int64_t> sizes) {
  std::vector<GridPlace> places;
  std::vector<int64_t> ids;
  for (const Device& device : slice) {
    places.push_back({device.id, device.coordinates});
    ids.push_back(device.id);
  }
  if (auto along = along_grid(places, sizes)) {
    return *std::move(along);
  }
  const std::vector<int64_t> grid = grid_sizes(places);
  check(grid.empty() || settings.allow_split_physical_axes,
        "[mesh] {} takes no whole axes of the {} network\n  choose sizes that are products of "
        "these, or allow_split_physical_axes=true: rows of the mesh then bend through the network",
        product_text("ici", settings.mesh_axes, sizes), fmt::join(grid, " x "));
  return ids;
}

}  // namespace

bool Mesh::has(std::string_view axis) const {
  return std::ranges::any_of(axes.axes, [&](const auto& each) { return each.first == axis; });
}

int64_t Mesh::size(std::string_view axis) const {
  for (const auto& [name, size] : axes.axes) {
    if (name == axis) {
      return size;
    }
  }
  fail("[mesh] there is no mesh axis `{}`: the mesh is {}", axis, axes_text(axes));
}

int64_t Mesh::size(std::span<const std::string> names) const {
  int64_t product = 1;
  for (const std::string& name : names) {
    product *= size(name);
  }
  return product;
}

Mesh make_mesh(const Settings& settings, std::span<const Device> devices) {
  check_names(settings);
  check(!devices.empty(), "[mesh] there are no devices");
  const std::vector<Slice> slices = slices_of(devices, settings.compile_topology_num_slices);
  const auto per_slice = static_cast<int64_t>(slices.front().size());
  const auto count = static_cast<int64_t>(slices.size());
  const std::vector<int64_t> dcn = network_sizes(settings, "dcn", count, "slices");
  const std::vector<int64_t> ici =
      network_sizes(settings, "ici", per_slice, count == 1 ? "devices" : "devices in each slice");

  std::vector<std::vector<int64_t>> rows;
  for (const Slice& slice : slices) {
    rows.push_back(rows_of(slice, settings, ici));
  }
  Mesh mesh;
  for (size_t a = 0; a < ici.size(); ++a) {
    mesh.axes.axes.emplace_back(settings.mesh_axes[a], dcn[a] * ici[a]);
  }
  // Rules may name an axis that mesh_axes does not have: it has one device.
  for (const std::string_view axis : kAxes) {
    if (!mesh.has(axis)) {
      mesh.axes.axes.emplace_back(axis, 1);
    }
  }
  const int64_t total = per_slice * count;
  for (int64_t position = 0; position < total; ++position) {
    // Coordinates along the axes, last axis fastest; each is divided into the slice and the
    // position inside it.
    int64_t rest = position;
    int64_t slice = 0;
    int64_t within = 0;
    int64_t slice_step = 1;
    int64_t within_step = 1;
    for (size_t a = ici.size(); a-- > 0;) {
      const int64_t size = dcn[a] * ici[a];
      const int64_t at = rest % size;
      rest /= size;
      slice += at / ici[a] * slice_step;
      within += at % ici[a] * within_step;
      slice_step *= dcn[a];
      within_step *= ici[a];
    }
    mesh.device_ids.push_back(rows[static_cast<size_t>(slice)][static_cast<size_t>(within)]);
  }
  return mesh;
}

Mesh make_vae_mesh(int64_t spatial, std::span<const Device> devices) {
  Mesh mesh;
  for (const Device& each : devices) {
    mesh.device_ids.push_back(each.id);
  }
  const int64_t all = mesh.devices();
  const int64_t shared = spatial == -1 ? all : spatial;
  check(shared > 0 && all % shared == 0,
        "[mesh] {} devices do not make groups of vae_spatial={}\n  it must be {}, or -1 for all",
        all, spatial, divisors_text(all));
  mesh.axes.axes = {{"redundant", all / shared}, {"vae_spatial", shared}};
  return mesh;
}

std::string axes_text(const MeshAxes& axes) {
  std::string out;
  for (const auto& [name, size] : axes.axes) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, size);
  }
  return out;
}

std::string divisors_text(int64_t n) {
  std::vector<int64_t> low;
  std::vector<int64_t> high;
  for (int64_t i = 1; i * i <= n; ++i) {
    if (n % i == 0) {
      low.push_back(i);
      if (i != n / i) {
        high.push_back(n / i);
      }
    }
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  if (low.size() == 1) {
    return fmt::format("{}", low[0]);
  }
  return fmt::format("{} or {}", fmt::join(low.begin(), low.end() - 1, ", "), low.back());
}

}  // namespace kinema::mesh
