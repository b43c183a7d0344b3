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

/// Returns the logical axes of a program's input by its name ("": none); empty if unknown.
using LogicalAxes = std::function<std::vector<std::string>(const std::string& input)>;

/// One line per input of a program: name, shape, logical axis -> mesh axes of each dimension, bytes
/// per device and in total. Then their sums.
std::vector<std::string> tensor_lines(const mesh::Mesh& mesh, std::span<const Port> inputs,
                                      const LogicalAxes& logical);

/// One line per kind of collective: number of executions, result, mesh axes, and origin in the
/// model; those with the most bytes first. Then their sum.
std::vector<std::string> collective_lines(const mesh::Mesh& mesh,
                                          std::span<const pjrt::Collective> collectives);

/// Both, for a compiled program.
std::vector<std::string> sharding_report(const mesh::Mesh& mesh, const Program& program,
                                         const LogicalAxes& logical);

/// The mesh axes along which these positions in the mesh's order differ: `fsdp`, `context, tensor`.
std::string axes_between(const mesh::Mesh& mesh, std::span<const int64_t> places);

/// `12.3 MB`
std::string bytes_text(int64_t bytes);

}  // namespace kinema::runtime
