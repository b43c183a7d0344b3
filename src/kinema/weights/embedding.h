#pragma once

#include <cstdint>
#include <span>

#include "kinema/core/host_array.h"
#include "kinema/io/safetensors.h"

namespace kinema::weights {

/// Rows of an embedding table [n, d] read from its file, in its dtype: [dims..., d] for ids of the
/// shape `dims`. Throws an Error for an id that is not from 0 to n - 1.
HostArray embedding_rows(const io::TensorView& table, const Dims& dims,
                         std::span<const int64_t> ids);

}  // namespace kinema::weights
