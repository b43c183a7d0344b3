#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/pjrt/collective_calls.h"

/// Collectives on bytes. `parts[i]` is the operand of member i of the group; results have the same
/// bits as in XLA's CPU client with one process, which sums in the group's order.
namespace kinema::cluster {

using Bytes = std::span<const std::byte>;
using Parts = std::vector<Bytes>;

/// `sum` = `sum` OP `other`, element-wise. Throws an Error for unsupported element types and
/// operations.
void reduce_into(std::span<std::byte> sum, Bytes other, DType dtype, const std::string& reduction);

/// The parts concatenated along the operand's axis.
void all_gather(const Parts& parts, const pjrt::CollectiveCall::Operand& operand,
                std::span<std::byte> result);

/// The `member`-th piece of each part along the axis, concatenated along it.
void all_to_all(const Parts& parts, const pjrt::CollectiveCall::Operand& operand, size_t member,
                std::span<std::byte> result);

/// The `member`-th piece of one part along the axis.
void take_piece(Bytes whole, const pjrt::CollectiveCall::Operand& operand, size_t pieces,
                size_t member, std::span<std::byte> result);

}  // namespace kinema::cluster
