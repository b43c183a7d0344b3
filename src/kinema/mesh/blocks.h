#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/graph.h"
#include "kinema/mesh/mesh.h"

/// Which part of an array each device holds, and copying such parts. Bytes are row-major.
namespace kinema::mesh {

/// A part of an array: along each dimension `size` elements from `start`.
struct Block {
  Dims start;
  Dims size;
  bool operator==(const Block&) const = default;

  int64_t elements() const;
};

/// The block of an array with these sizes on each device, in the mesh's order. A sharding without
/// dimensions leaves the array whole on all of them. Throws an Error when a size does not divide
/// over its axes.
std::vector<Block> blocks_of(const Mesh& mesh, const Sharding& sharding, const Dims& dims);

/// Devices (positions in the mesh's order) that hold the same block, by first device.
struct Holders {
  Block block;
  std::vector<size_t> devices;
};
std::vector<Holders> holders_of(std::span<const Block> blocks);

/// Calls `run(offset, count)` for each contiguous run of elements of the block within the whole
/// array, in row-major order.
void for_each_run(const Dims& dims, const Block& block,
                  const std::function<void(int64_t offset, int64_t count)>& run);

/// Copies a block out of the whole array; `into` holds exactly its elements.
void take_block(std::span<const std::byte> whole, const Shape& shape, const Block& block,
                std::span<std::byte> into);
/// Copies a block's elements to where they lie in the whole array.
void put_block(std::span<const std::byte> part, const Shape& shape, const Block& block,
               std::span<std::byte> whole);

}  // namespace kinema::mesh
