#pragma once

#include <deque>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/model_files/names.h"
#include "kinema/weights/lora.h"

namespace kinema::weights {

/// One of the modules that the original release joins.
struct JoinedPart {
  std::string module;        // diffusers' name
  model_files::Piece piece;  // the part of the original
  const Lora::Target* target;
};

/// The pair for the original's module, with its memory.
struct Joined {
  std::deque<HostArray> arrays;
  std::deque<io::TensorView> views;
  Lora::Target target;
};

/// Joins pairs by rows of up:
///
///   down = [down_0; down_1; ...]     up = diag(s_0 up_0, s_1 up_1, ...),   s = alpha / rank
///
/// or down = down_0 if all share it. If s is the same for all, it becomes the joined pair's alpha /
/// rank instead. Rows of up are 0 for parts that are not given. Throws an Error with the module's
/// name if it is more than a pair, or if sizes do not fit together.
Joined join(const model_files::NameTable& names, const std::string& original,
            std::span<const JoinedPart> parts, const std::string& path);

}  // namespace kinema::weights
