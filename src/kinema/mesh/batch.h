#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json_text.h"
#include "kinema/mesh/placement.h"

namespace kinema::mesh {

/// Where a batch of `samples` lies once Placement::for_samples has its say, and the weights, on one
/// line: `2 samples over data=2, tokens over context=2, weights over context=2`. `what` follows the
/// number. Says so when fsdp splits tokens because the samples do not divide over it.
std::string batch_text(const Placement& asked, int64_t samples, std::string_view what);

/// Throws an Error with the remedy when `samples` do not divide over the mesh axes that
/// `activation_batch` lies on. `per_device` is per_device_batch_size where that made the number, 0
/// where global_batch_size did.
void check_batch(const Placement& placement, int64_t samples, double per_device);

/// Throws an Error that names the numbers that work when `size` (40 attention heads, say) does not
/// divide over the mesh axes that the logical axis lies on.
void check_divides(const Placement& placement, std::string_view what, int64_t size,
                   std::string_view logical);

/// The rule that `data_sharding` is: one list of mesh axes, for the samples of a batch. Throws an
/// Error for anything else.
AxisRules sample_rules(const io::JsonText& data_sharding);

/// The mesh axes that split a batch as it comes from the host: those of `data_sharding` ([["data",
/// "fsdp", ...]]: one list, for the samples), less the last of them that the samples do not divide
/// over and those of one device.
std::vector<std::string> batch_axes(const Placement& placement, const io::JsonText& data_sharding,
                                    int64_t samples);

}  // namespace kinema::mesh
