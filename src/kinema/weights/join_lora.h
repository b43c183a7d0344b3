#pragma once

#include <deque>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/names.h"

namespace kinema::weights {

/// One of the modules that the original release has in one.
struct JoinedPart {
  std::string module;  // diffusers'
  Piece piece;         // which part of the original it is
  const Lora::Target* target;
};

/// The pair of the original's module, and the memory that it lies in.
struct Joined {
  std::deque<HostArray> arrays;
  std::deque<io::TensorView> views;
  Lora::Target target;
};

/// Joins pairs by rows of up:
///
///   down = [down_0; down_1; ...]     up = diag(s_0 up_0, s_1 up_1, ...),   s = alpha / rank
///
/// and down = down_0 where all share it. Where s is the same for all it is the joined pair's alpha
/// / rank instead. Rows of up of parts that are not given are 0. Throws an Error naming the module
/// where there is more than pairs, or sizes do not fit together.
Joined join(const NameTable& names, const std::string& original, std::span<const JoinedPart> parts,
            const std::string& path);

}  // namespace kinema::weights
