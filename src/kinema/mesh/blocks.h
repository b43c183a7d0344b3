#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/graph.h"
#include "kinema/mesh/mesh.h"

/// The part of an array on each device, and copies of such parts. Bytes are row-major.
namespace kinema::mesh {

/// A part of an array: `size` elements from `start` along each dimension.
struct Block {
  Dims start;
  Dims size;
  bool operator==(const Block&) const = default;

  int64_t elements() const;
};

/// The block of an array of these sizes on each device, in the mesh's order. A sharding without
/// dimensions means replicated. Throws an Error if a size does not divide over its axes.
std::vector<Block> blocks_of(const Mesh& mesh, const Sharding& sharding, const Dims& dims);

/// Devices (positions in the mesh's order) with the same block, ordered by the first device.
struct Holders {
  Block block;
  std::vector<size_t> devices;
};
std::vector<Holders> holders_of(std::span<const Block> blocks);

/// Calls `run(offset, count)` for each contiguous run of the block's elements within the whole
/// array, in row-major order.
void for_each_run(const Dims& dims, const Block& block,
                  const std::function<void(int64_t offset, int64_t count)>& run);

/// Copies a block out of the whole array; `into` holds exactly its elements.
void take_block(std::span<const std::byte> whole, const Shape& shape, const Block& block,
                std::span<std::byte> into);
/// Copies a block's elements to their positions in the whole array.
void put_block(std::span<const std::byte> part, const Shape& shape, const Block& block,
               std::span<std::byte> whole);

}  // namespace kinema::mesh
