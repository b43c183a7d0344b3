#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/pjrt/collective_calls.h"

/// What collectives do to bytes. `parts[i]` is what member i of the group gives; results have the
/// bits that XLA's CPU client gives one process, which sums in the group's order.
namespace kinema::cluster {

using Bytes = std::span<const std::byte>;
using Parts = std::vector<Bytes>;

/// `sum` = `sum` OP `other`, element by element. Throws an Error for an element type or operation
/// that has no reduction here.
void reduce_into(std::span<std::byte> sum, Bytes other, DType dtype, const std::string& reduction);

/// The parts one behind the other along the operand's axis.
void all_gather(const Parts& parts, const pjrt::CollectiveCall::Operand& operand,
                std::span<std::byte> result);

/// The `member`-th piece along the axis of each part, one behind the other along it.
void all_to_all(const Parts& parts, const pjrt::CollectiveCall::Operand& operand, size_t member,
                std::span<std::byte> result);

/// The `member`-th piece along the axis of one part.
void take_piece(Bytes whole, const pjrt::CollectiveCall::Operand& operand, size_t pieces,
                size_t member, std::span<std::byte> result);

}  // namespace kinema::cluster
