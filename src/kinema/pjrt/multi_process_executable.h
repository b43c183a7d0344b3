#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kinema/pjrt/executable.h"

namespace kinema::pjrt {

/// A program whose collectives are calls, with the bytes of the plugin's executable.
struct SerializedMultiProcess {
  PartitionedProgram program;
  std::string own;
};

std::string pack_multi_process(const PartitionedProgram& program, std::string_view own);
/// Nothing for other bytes.
std::optional<SerializedMultiProcess> unpack_multi_process(std::string_view bytes);

}  // namespace kinema::pjrt
