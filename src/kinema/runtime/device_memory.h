#pragma once

#include <cstdint>

#include "kinema/runtime/array.h"

/// How much memory the devices of a run have, hold and held. A CPU's is the process's own, shared
/// by all its devices.
namespace kinema::runtime {

/// Bytes that the fullest device of a mesh holds of an array.
int64_t bytes_per_device(const Shape& shape, const Sharding& sharding, const mesh::Mesh& mesh);

/// Bytes that each device may still take: the first one's own figure, else (CPU) an equal share of
/// what is available to this process, which gives back what it has freed first.
int64_t free_bytes(const Devices& devices);

/// What kernels of a program with so many bytes of temporaries work in, which its compiler does not
/// count (kernels/kernel_set.h).
int64_t kernel_bytes(const Devices& devices, int64_t temporaries);
/// The temporaries of a program that has so many bytes for them and for its kernels.
int64_t temporaries_within(const Devices& devices, int64_t bytes);

/// Bytes that the first device holds now; on a CPU the process, code included. 0 where a device
/// does not say.
int64_t held_bytes(const Devices& devices);

/// The most of held_bytes so far.
int64_t peak_bytes(const Devices& devices);

}  // namespace kinema::runtime
