#include "kinema/mesh/blocks.h"

#include <algorithm>
#include <cstring>

#include "kinema/core/error.h"

namespace kinema::mesh {
namespace {

/// The coordinate on each mesh axis of a device at this row-major position.
std::vector<int64_t> coordinates(const Mesh& mesh, int64_t position) {
  std::vector<int64_t> out(mesh.axes.axes.size());
  for (size_t a = out.size(); a-- > 0;) {
    const int64_t size = mesh.axes.axes[a].second;
    out[a] = position % size;
    position /= size;
  }
  return out;
}

int64_t coordinate(const Mesh& mesh, const std::vector<int64_t>& at, const std::string& axis) {
  for (size_t a = 0; a < at.size(); ++a) {
    if (mesh.axes.axes[a].first == axis) {
      return at[a];
    }
  }
  return 0;  // not reached: Mesh::size throws for unknown names
}

void check_block(const Shape& shape, const Block& block, size_t whole, size_t part) {
  check(static_cast<int64_t>(whole) == shape.bytes() &&
            static_cast<int64_t>(part) == block.elements() * byte_size(shape.dtype),
        "[mesh] {} bytes for {} and {} for a block {} of it", whole, to_string(shape), part,
        to_string(block.size));
  for (size_t d = 0; d < block.size.size(); ++d) {
    check(block.start[d] >= 0 && block.start[d] + block.size[d] <= shape.dims[d],
          "[mesh] the block {} at {} leaves {}", to_string(block.size), to_string(block.start),
          to_string(shape));
  }
}

}  // namespace

int64_t Block::elements() const { return checked_elements(size); }

std::vector<Block> blocks_of(const Mesh& mesh, const Sharding& sharding, const Dims& dims) {
  check(sharding.dims.empty() || sharding.dims.size() == dims.size(),
        "[mesh] a sharding of {} dimensions for {}", sharding.dims.size(), to_string(dims));
  Dims parts(dims.size(), 1);
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    parts[d] = mesh.size(sharding.dims[d]);
    check(dims[d] % parts[d] == 0, "[mesh] {} along dimension {} does not divide over {} devices",
          to_string(dims), d, parts[d]);
  }
  std::vector<Block> out;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const std::vector<int64_t> at = coordinates(mesh, device);
    Block block{Dims(dims.size(), 0), dims};
    for (size_t d = 0; d < sharding.dims.size(); ++d) {
      int64_t index = 0;
      for (const std::string& axis : sharding.dims[d]) {
        index = index * mesh.size(axis) + coordinate(mesh, at, axis);
      }
      block.size[d] = dims[d] / parts[d];
      block.start[d] = index * block.size[d];
    }
    out.push_back(std::move(block));
  }
  return out;
}

std::vector<Holders> holders_of(std::span<const Block> blocks) {
  std::vector<Holders> out;
  for (size_t device = 0; device < blocks.size(); ++device) {
    const auto same = std::ranges::find(out, blocks[device], &Holders::block);
    if (same == out.end()) {
      out.push_back({blocks[device], {device}});
    } else {
      same->devices.push_back(device);
    }
  }
  return out;
}

void for_each_run(const Dims& dims, const Block& block,
                  const std::function<void(int64_t offset, int64_t count)>& run) {
  if (block.elements() == 0) {
    return;
  }
  // Dimensions from `inner` on are complete in the block, so one run spans them and the block's
  // range of the dimension before them.
  size_t inner = dims.size();
  int64_t count = 1;
  while (inner > 0) {
    --inner;
    count *= block.size[inner];
    if (block.size[inner] != dims[inner]) {
      break;
    }
  }
  Dims at(block.start);
  while (true) {
    int64_t offset = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      offset = offset * dims[d] + at[d];
    }
    run(offset, count);
    size_t d = inner;
    while (d > 0) {
      --d;
      if (++at[d] < block.start[d] + block.size[d]) {
        break;
      }
      at[d] = block.start[d];
      if (d == 0) {
        return;
      }
    }
    if (inner == 0) {
      return;
    }
  }
}

void take_block(std::span<const std::byte> whole, const Shape& shape, const Block& block,
                std::span<std::byte> into) {
  check_block(shape, block, whole.size(), into.size());
  const auto width = static_cast<size_t>(byte_size(shape.dtype));
  size_t at = 0;
  for_each_run(shape.dims, block, [&](int64_t offset, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * width;
    std::memcpy(into.data() + at, whole.data() + static_cast<size_t>(offset) * width, bytes);
    at += bytes;
  });
}

void put_block(std::span<const std::byte> part, const Shape& shape, const Block& block,
               std::span<std::byte> whole) {
  check_block(shape, block, whole.size(), part.size());
  const auto width = static_cast<size_t>(byte_size(shape.dtype));
  size_t at = 0;
  for_each_run(shape.dims, block, [&](int64_t offset, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * width;
    std::memcpy(whole.data() + static_cast<size_t>(offset) * width, part.data() + at, bytes);
    at += bytes;
  });
}

}  // namespace kinema::mesh
