#include "kinema/runtime/reshard.h"

#include <utility>

#include "kinema/graph/graph.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/runtime/bits_type.h"

namespace kinema::runtime {

Array Resharder::operator()(Array array, const Sharding& sharding) {
  if (replicated_axes(devices_.placement().mesh(), sharding).empty()) {
    return array;
  }
  const Array* const argument = &array;
  return std::move(program_for(array.shape(), sharding).run(devices_, {&argument, 1}).front());
}

const Program& Resharder::program_for(const Shape& shape, const Sharding& sharding) {
  for (const Compiled& each : programs_) {
    if (each.shape == shape && each.sharding == sharding) {
      return each.program;
    }
  }
  const mesh::Mesh& mesh = devices_.placement().mesh();
  const DeviceGroups holders = device_groups(mesh.axes, replicated_axes(mesh, sharding));
  Graph graph;
  // The sum is over bits: adding zeros keeps every bit of a value, whereas a sum of floats would
  // lose the sign of a zero and a NaN's payload.
  const DType bits = bits_type(shape.dtype);
  const std::vector<Tensor> outputs = manual(
      {graph.input(shape, "part", sharding)},
      {.mesh = mesh.axes, .in = {sharding}, .out = {sharding}}, [&](std::span<const Tensor> parts) {
        const Tensor x = parts[0];
        const Tensor sum = all_reduce_sum(x.dtype() == bits ? x : bitcast(x, bits), holders);
        return std::vector<Tensor>{x.dtype() == bits ? sum : bitcast(sum, x.dtype())};
      });
  ProgramOptions options{.name = "spread"};
  options.emit.output_shardings = {sharding};
  options.emit.donate = {{0, 0}};
  split_over(devices_, options);
  return programs_
      .emplace_back(
          Compiled{shape, sharding, Program::compile(devices_.client(), graph, outputs, options)})
      .program;
}

}  // namespace kinema::runtime
