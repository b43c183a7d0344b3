#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json_text.h"
#include "kinema/mesh/placement.h"

namespace kinema::mesh {

/// A line with the sharding of a batch of `samples` after Placement::for_samples, and of the
/// weights: `2 samples over data=2, tokens over context=2, weights over context=2`. `what` follows
/// the number. It mentions if fsdp shards tokens because the samples do not divide over it.
std::string batch_text(const Placement& asked, int64_t samples, std::string_view what);

/// Throws an Error with the remedy if `samples` do not divide over the mesh axes of
/// `activation_batch`. `per_device` is per_device_batch_size if the number is from that key, 0 if
/// it is from global_batch_size.
void check_batch(const Placement& placement, int64_t samples, double per_device);

/// Throws an Error with the valid numbers if `size` (of attention heads, for example) does not
/// divide over the mesh axes of the logical axis.
void check_divides(const Placement& placement, std::string_view what, int64_t size,
                   std::string_view logical);

/// The rule in `data_sharding`: one list of mesh axes, for the samples of a batch. Throws an Error
/// for anything else.
AxisRules sample_rules(const io::JsonText& data_sharding);

/// The mesh axes that shard a batch from the host: those of `data_sharding` ([["data", "fsdp",
/// ...]]: one list, for the samples), without the last ones over which the samples do not divide,
/// and without axes of one device.
std::vector<std::string> batch_axes(const Placement& placement, const io::JsonText& data_sharding,
                                    int64_t samples);

}  // namespace kinema::mesh
