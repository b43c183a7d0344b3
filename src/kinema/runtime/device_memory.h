#pragma once

#include <cstdint>

#include "kinema/runtime/array.h"

/// Total, current and peak memory of a run's devices. For a CPU it is the process's memory, shared
/// by all its devices.
namespace kinema::runtime {

/// Maximum bytes of an array on one device of a mesh.
int64_t bytes_per_device(const Shape& shape, const Sharding& sharding, const mesh::Mesh& mesh);

/// Bytes available per device: the first device's figure, or (CPU) an equal part of the memory that
/// is available to this process after freed memory was returned to the system.
int64_t free_bytes(const Devices& devices);

/// Memory of the kernels in a program with these temporaries, which its compiler does not count
/// (kernels/kernel_set.h).
int64_t kernel_bytes(const Devices& devices, int64_t temporaries);
/// The maximum temporaries of a program, if temporaries and kernels have `bytes` together.
int64_t temporaries_within(const Devices& devices, int64_t bytes);

/// Bytes in use on the first device; on a CPU, of the process including code. 0 if unknown.
int64_t held_bytes(const Devices& devices);

/// The peak of held_bytes so far.
int64_t peak_bytes(const Devices& devices);

}  // namespace kinema::runtime
