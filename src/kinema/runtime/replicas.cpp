#include "kinema/runtime/replicas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/runtime/bits_type.h"

namespace kinema::runtime {
namespace {

std::string bits_of(HostArray copy) {
  if (copy.shape.dtype == DType::F32) {
    for (float& x : copy.as<float>()) {
      x = std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x;
    }
  }
  return {reinterpret_cast<const char*>(copy.bytes.data()), copy.bytes.size()};
}

/// The sum of an array's bits as U32 [1], which wraps around.
Tensor sum_of_bits(Tensor x) {
  const DType type = bits_type(x.dtype());
  Tensor bits = x;
  if (x.dtype() == DType::PRED) {
    bits = convert(x, type);
  } else if (x.dtype() != type) {
    bits = bitcast(x, type);
  }
  if (type == DType::U64) {  // both halves are added
    const Tensor low = remainder(bits, constant(bits.graph(), 4294967296.0, {type, {}}));
    const Tensor high = bits / 4294967296.0;
    bits = convert(low, DType::U32) + convert(high, DType::U32);
  } else if (type != DType::U32) {
    bits = convert(bits, DType::U32);
  }
  return reshape(x.rank() == 0 ? bits : sum(bits), {1});
}

/// One group of all devices, in the mesh's order.
DeviceGroups all_devices(const Devices& devices) {
  std::vector<std::string> axes;
  for (const auto& [axis, size] : devices.placement().mesh().axes.axes) {
    axes.push_back(axis);
  }
  return device_groups(devices.placement().mesh().axes, axes);
}

Program compile(const Devices& devices, std::span<const Port> ports, ProgramOptions options) {
  Graph graph;
  std::vector<Tensor> inputs;
  ManualSpec spec{.mesh = devices.placement().mesh().axes};
  for (const Port& port : ports) {
    inputs.push_back(graph.input(port.shape, port.name, port.sharding));
    spec.in.push_back(port.sharding);
  }
  Dims dims{static_cast<int64_t>(ports.size())};
  if (devices.is_shared()) {  // gather each device's row on all
    dims.insert(dims.begin(), devices.total());
  }
  const Sharding whole = devices.placement().whole(dims);
  // The output is declared replicated, although the values may differ: each device's buffer has its
  // own.
  spec.out = {whole};
  const std::vector<Tensor> outputs =
      manual(inputs, std::move(spec), [&](std::span<const Tensor> parts) {
        std::vector<Tensor> sums;
        for (const Tensor part : parts) {
          sums.push_back(sum_of_bits(part));
        }
        const Tensor own = concatenate(std::move(sums), Axis(0));
        if (!devices.is_shared()) {
          return std::vector<Tensor>{own};
        }
        return std::vector<Tensor>{
            all_gather(reshape(own, {1, own.dim(0)}), all_devices(devices), Axis(0))};
      });
  options.emit.output_shardings = {whole};
  split_over(devices, options);
  return Program::compile(devices.client(), graph, outputs, options);
}

}  // namespace

std::vector<size_t> mismatched_replicas(std::span<const HostArray> copies) {
  std::map<std::string, std::vector<size_t>> by_bits;
  for (size_t i = 0; i < copies.size(); ++i) {
    by_bits[bits_of(copies[i])].push_back(i);
  }
  const std::vector<size_t>* most = nullptr;
  for (const auto& [bits, holders] : by_bits) {
    if (most == nullptr || holders.size() > most->size() ||
        (holders.size() == most->size() && holders.front() < most->front())) {
      most = &holders;
    }
  }
  std::vector<size_t> odd;
  for (const auto& [bits, holders] : by_bits) {
    if (&holders != most) {
      odd.insert(odd.end(), holders.begin(), holders.end());
    }
  }
  std::ranges::sort(odd);
  return odd;
}

std::vector<HostArray> replica_values(const Array& array) {
  std::vector<HostArray> copies;
  for (const pjrt::Buffer& shard : array.shards()) {
    copies.push_back(shard.to_host());
  }
  return copies;
}

ReplicaCheck::ReplicaCheck(const Devices& devices, std::span<const Port> ports,
                           ProgramOptions options)
    : devices_(devices) {
  for (const Port& port : ports) {
    shardings_.push_back(port.sharding);
  }
  if (devices.total() > 1 && !ports.empty()) {
    program_.push_back(compile(devices, ports, std::move(options)));
  }
}

/// Each device's sums, in the mesh's order.
std::vector<HostArray> ReplicaCheck::sums(std::span<const Array* const> arrays) const {
  const Array result = std::move(program_.front().run(devices_, arrays).front());
  if (!devices_.is_shared()) {
    return replica_values(result);
  }
  const HostArray all = result.shards().front().to_host();
  const size_t count = arrays.size();
  std::vector<HostArray> out;
  for (size_t d = 0; d < static_cast<size_t>(devices_.total()); ++d) {
    out.push_back(HostArray::from<uint32_t>(DType::U32, {static_cast<int64_t>(count)},
                                            all.as<uint32_t>().subspan(d * count, count)));
  }
  return out;
}

std::vector<MismatchedReplica> ReplicaCheck::find(std::span<const Array* const> arrays) const {
  std::vector<MismatchedReplica> out;
  if (program_.empty()) {
    return out;
  }
  const std::vector<HostArray> sums = this->sums(arrays);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::vector<mesh::Block> blocks =
        mesh::blocks_of(devices_.placement().mesh(), shardings_[i], arrays[i]->shape().dims);
    for (const mesh::Holders& part : mesh::holders_of(blocks)) {
      std::vector<HostArray> copies;
      for (const size_t d : part.devices) {
        copies.push_back(
            HostArray::from<uint32_t>(DType::U32, {1}, sums[d].as<uint32_t>().subspan(i, 1)));
      }
      for (const size_t odd : mismatched_replicas(copies)) {
        out.push_back({.array = i, .device = part.devices[odd]});
      }
    }
  }
  return out;
}

std::string device_text(const Devices& devices, size_t position) {
  const pjrt::DeviceDescription device =
      devices.placement().active()
          ? devices.client().device(devices.placement().mesh().device_ids[position]).description()
          : devices[position].description();
  std::string where;
  if (devices.placement().active()) {
    const auto& axes = devices.placement().mesh().axes.axes;
    size_t left = position;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      const auto size = static_cast<size_t>(axis->second);
      if (size > 1) {
        where = fmt::format("{}={}{}", axis->first, left % size, where.empty() ? "" : ", ") + where;
      }
      left /= size;
    }
  }
  if (devices.is_shared()) {
    where = fmt::format("process {}{}", device.process_index, where.empty() ? "" : ", ") + where;
  }
  return fmt::format("device {}{}", device.id, where.empty() ? "" : " (" + where + ")");
}

}  // namespace kinema::runtime
