#include "kinema/runtime/whole_reader.h"

#include "kinema/graph/graph.h"

namespace kinema::runtime {

HostArray WholeReader::read(const Array& array, const Sharding& sharding, bool wanted) {
  if (!devices_.is_shared() || array.is_whole()) {
    return wanted ? array.to_host() : HostArray();
  }
  const Array* const argument = &array;
  const std::vector<Array> whole = gather(array.shape(), sharding).run(devices_, {&argument, 1});
  return wanted ? whole.front().to_host() : HostArray();
}

const Program& WholeReader::gather(const Shape& shape, const Sharding& sharding) {
  for (const Gather& each : gathers_) {
    if (each.shape == shape && each.sharding == sharding) {
      return each.program;
    }
  }
  Graph graph;
  const Tensor whole = graph.input(shape, "part", sharding);
  ProgramOptions options{.name = "gather"};
  options.emit.output_shardings = {devices_.placement().whole(shape.dims)};
  split_over(devices_, options);
  Program program = Program::compile(devices_.client(), graph, {&whole, 1}, options);
  return gathers_.emplace_back(Gather{shape, sharding, std::move(program)}).program;
}

}  // namespace kinema::runtime
