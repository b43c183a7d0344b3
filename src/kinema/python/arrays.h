#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "kinema/core/host_array.h"

/// Arrays of Python: numpy, and by DLPack those of torch, jax and others.
namespace kinema::python {

namespace nb = nanobind;

/// An array on the CPU of any of these libraries, row-major.
using GivenArray = nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>;

/// A numpy array that owns the bytes, without a copy. bfloat16 and float8, which numpy lacks, are
/// converted to float32.
nb::object to_numpy(HostArray array);

/// Throws an Error for an element type that kinema lacks.
Shape shape_of(const GivenArray& array);
/// The array's own bytes.
std::span<const std::byte> bytes_of(const GivenArray& array);

}  // namespace kinema::python
