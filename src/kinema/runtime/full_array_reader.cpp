#include "kinema/runtime/full_array_reader.h"

#include <algorithm>

#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"

namespace kinema::runtime {
namespace {

/// An entry of the first axis.
HostArray layer_of(const HostArray& whole, int64_t layer) {
  HostArray out(Shape{whole.shape.dtype, {whole.shape.dims.begin() + 1, whole.shape.dims.end()}});
  const auto from = whole.bytes.begin() + static_cast<std::ptrdiff_t>(out.bytes.size()) * layer;
  std::copy_n(from, out.bytes.size(), out.bytes.begin());
  return out;
}

}  // namespace

HostArray FullArrayReader::read(const Array& array, const Sharding& sharding, bool wanted) {
  if (array.is_whole()) {
    return wanted ? array.to_host() : HostArray();
  }
  const Array* const argument = &array;
  const std::vector<Array> whole =
      gather(array.shape(), sharding, /*layers=*/false).run(devices_, {&argument, 1});
  return wanted ? whole.front().to_host() : HostArray();
}

std::vector<HostArray> FullArrayReader::read_layers(const Array& array, const Sharding& sharding,
                                                    const std::vector<bool>& wanted) {
  std::vector<HostArray> out(wanted.size());
  const bool is_whole = array.is_whole();
  const bool any = std::ranges::find(wanted, true) != wanted.end();
  const HostArray whole =
      is_whole && any ? array.to_host() : HostArray();  // one copy for all entries
  for (size_t layer = 0; layer < wanted.size(); ++layer) {
    const auto number = static_cast<int32_t>(layer);
    if (is_whole) {
      out[layer] = wanted[layer] ? layer_of(whole, number) : HostArray();
      continue;
    }
    const Array place =
        devices_.upload(HostArray::from<int32_t>(DType::S32, {}, std::span(&number, 1)));
    const std::vector<const Array*> arguments{&array, &place};
    const std::vector<Array> one =
        gather(array.shape(), sharding, /*layers=*/true).run(devices_, arguments);
    out[layer] = wanted[layer] ? one.front().to_host() : HostArray();
  }
  return out;
}

const Program& FullArrayReader::gather(const Shape& shape, const Sharding& sharding, bool layers) {
  for (const Gather& each : gathers_) {
    if (each.shape == shape && each.sharding == sharding && each.layers == layers) {
      return each.program;
    }
  }
  Graph graph;
  Tensor out = graph.input(shape, "part", sharding);
  if (layers) {
    const Tensor layer = graph.input({DType::S32, {}}, "layer");
    const Dims dims(shape.dims.begin() + 1, shape.dims.end());
    out = reshape(dynamic_slice(out, Axis(0), layer, 1), dims);
  }
  ProgramOptions options{.name = "gather"};
  options.emit.output_shardings = {devices_.placement().whole(out.shape().dims)};
  split_over(devices_, options);
  Program program = Program::compile(devices_.client(), graph, {&out, 1}, options);
  return gathers_.emplace_back(Gather{shape, sharding, layers, std::move(program)}).program;
}

}  // namespace kinema::runtime
