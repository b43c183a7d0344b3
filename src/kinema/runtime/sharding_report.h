#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/mesh/mesh.h"
#include "kinema/pjrt/collectives.h"
#include "kinema/runtime/program.h"

namespace kinema::runtime {

/// Gives the logical axes of a program's input by its name ("": none); empty where they are not
/// known.
using LogicalAxes = std::function<std::vector<std::string>(const std::string& input)>;

/// A line for each input of a program: name, shape, logical axis -> mesh axes of each dimension,
/// bytes on a device and in all. Then their sums.
std::vector<std::string> tensor_lines(const mesh::Mesh& mesh, std::span<const Port> inputs,
                                      const LogicalAxes& logical);

/// A line for each kind of collective: how often it runs, what it gives, over which mesh axes, and
/// where in the model it comes from; those that move most first. Then their sum.
std::vector<std::string> collective_lines(const mesh::Mesh& mesh,
                                          std::span<const pjrt::Collective> collectives);

/// Both of a compiled program.
std::vector<std::string> sharding_report(const mesh::Mesh& mesh, const Program& program,
                                         const LogicalAxes& logical);

/// The mesh axes along which these places in the mesh's order differ: `fsdp`, `context, tensor`.
std::string axes_between(const mesh::Mesh& mesh, std::span<const int64_t> places);

/// `12.3 MB`
std::string bytes_text(int64_t bytes);

}  // namespace kinema::runtime
