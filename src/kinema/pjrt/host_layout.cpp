#include "kinema/pjrt/host_layout.h"

#include <array>

#include "kinema/pjrt/api.h"

namespace kinema::pjrt {
namespace {

// T(8,128)(4,1): words with bytes of four rows, in tiles of 8 rows.
constexpr std::array<int64_t, 4> kTileDims{8, 128, 4, 1};
constexpr std::array<size_t, 2> kTileRanks{2, 2};

}  // namespace

bool has_byte_tiles(const ClientHandle& client, const Shape& shape, MemoryKind memory) {
  if (memory == MemoryKind::DEVICE || byte_size(shape.dtype) != 1 || shape.rank() < 2) {
    return false;
  }
  const auto reply = KINEMA_PJRT(*client.api, Client_PlatformName, .client = client.client);
  return view(reply.platform_name, reply.platform_name_size) == "tpu";
}

ByteTiles::ByteTiles(const Shape& shape) {
  for (int64_t axis = shape.rank(); axis-- > 0;) {
    minor_to_major_.push_back(axis);
  }
  layout_.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout_.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  PJRT_Buffer_MemoryLayout_Tiled& tiled = layout_.tiled;
  tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  tiled.minor_to_major = minor_to_major_.data();
  tiled.minor_to_major_size = minor_to_major_.size();
  tiled.tile_dims = kTileDims.data();
  tiled.tile_dim_sizes = kTileRanks.data();
  tiled.num_tiles = kTileRanks.size();
}

}  // namespace kinema::pjrt
