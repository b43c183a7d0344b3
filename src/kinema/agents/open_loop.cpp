#include "kinema/agents/open_loop.h"

#include <algorithm>
#include <utility>

#include "kinema/agents/spaces.h"
#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::agents {
namespace {

/// The first `shape` of an array: of rows and of steps.
HostArray cut(const HostArray& array, const Shape& shape, const std::string& name) {
  const Dims& from = array.shape.dims;
  check(array.shape.dtype == shape.dtype && from.size() == shape.dims.size() &&
            from[0] >= shape.dims[0] && from[1] >= shape.dims[1] &&
            std::equal(from.begin() + 2, from.end(), shape.dims.begin() + 2),
        "[agents] replayed `{}` is {}, expected at least {}", name, to_string(array.shape),
        to_string(shape));
  HostArray out(shape);
  const size_t row = array.bytes.size() / static_cast<size_t>(from[0]);
  const size_t wanted = out.bytes.size() / static_cast<size_t>(shape.dims[0]);
  for (size_t i = 0; i < static_cast<size_t>(shape.dims[0]); ++i) {
    std::copy_n(array.bytes.begin() + static_cast<int64_t>(i * row), wanted,
                out.bytes.begin() + static_cast<int64_t>(i * wanted));
  }
  return out;
}

/// Without the first `steps` of the second axis.
HostArray without_context(const HostArray& array, int64_t steps) {
  Shape shape = array.shape;
  shape.dims[1] -= steps;
  HostArray out(shape);
  const size_t rows = static_cast<size_t>(shape.dims[0]);
  const size_t row = array.bytes.size() / rows;
  const size_t wanted = out.bytes.size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    std::copy_n(array.bytes.begin() + static_cast<int64_t>((i + 1) * row - wanted), wanted,
                out.bytes.begin() + static_cast<int64_t>(i * wanted));
  }
  return out;
}

}  // namespace

OpenLoop::OpenLoop(const pjrt::Client& client, const dreamer::AgentConfig& config,
                   const nn::ModelOptions& options, const BatchSize& size,
                   const runtime::ProgramOptions& program)
    : client_(client), graph_(open_loop_graph(config, options, size)), size_(size) {
  runtime::ProgramOptions how = program;
  how.name = "agent_open_loop";
  program_ = std::make_unique<runtime::Program>(
      runtime::Program::compile(client_, *graph_.graph, graph_.outputs, how));
}

OpenLoop::Result OpenLoop::operator()(const std::function<const pjrt::Buffer&(size_t)>& parameter,
                                      const replay::Arrays& batch) const {
  std::vector<pjrt::Buffer> given;
  const auto key = random_key(0, "agent");
  given.push_back(client_.to_device(
      HostArray::from<uint32_t>(DType::U32, {2}, std::span<const uint32_t>(key))));
  Result out;
  for (const auto& [name, shape] : graph_.data) {
    const auto found = batch.find(name);
    check(found != batch.end(), "[agents] replayed steps have no `{}`", name);
    const HostArray values = cut(found->second, shape, name);
    if (name == graph_.image) {
      out.truth = without_context(values, size_.context);
    }
    given.push_back(client_.to_device(values));
  }
  std::vector<const pjrt::Buffer*> arguments;
  for (const size_t i : graph_.parameters) {
    arguments.push_back(&parameter(i));
  }
  for (const pjrt::Buffer& buffer : given) {
    arguments.push_back(&buffer);
  }
  const std::vector<pjrt::Buffer> outputs = program_->run(arguments);
  out.prediction = outputs[0].to_host();
  out.video = outputs[1].to_host();
  return out;
}

EpisodeBatch::EpisodeBatch(const dreamer::AgentConfig& config, DType activations) {
  for (const auto& [name, shape] : step_shapes(config, activations)) {
    shapes_[name] = shape;
    values_[name].resize(static_cast<size_t>(shape.bytes()));  // the context's
  }
}

void EpisodeBatch::add(const Transition& now, int64_t row) {
  const auto flag = [&](const std::vector<uint8_t>& flags) {
    return HostArray::from<uint8_t>(DType::U8, {},
                                    std::vector<uint8_t>{flags[static_cast<size_t>(row)]});
  };
  replay::Arrays step{
      {"reward", HostArray::f32({}, std::vector<float>{now.reward[static_cast<size_t>(row)]})},
      {"is_first", flag(now.is_first)},
      {"is_last", flag(now.is_last)},
      {"is_terminal", flag(now.is_terminal)}};
  for (const auto* part : {&now.observations, &now.actions}) {
    for (const auto& [name, rows] : *part) {
      step[name] = row_of(rows, row);
    }
  }
  for (auto& [name, values] : values_) {
    const auto found = step.find(name);
    const HostArray here = found != step.end() ? found->second : HostArray(shapes_.at(name));
    check(here.shape == shapes_.at(name), "[agents] `{}` of an episode is {} but must be {}", name,
          to_string(here.shape), to_string(shapes_.at(name)));
    values.insert(values.end(), here.bytes.begin(), here.bytes.end());
  }
  ++length_;
}

replay::Arrays EpisodeBatch::batch() const {
  replay::Arrays out;
  for (const auto& [name, values] : values_) {
    Shape shape = shapes_.at(name);
    shape.dims.insert(shape.dims.begin(), {1, 1 + length_});
    HostArray array(shape);
    std::ranges::copy(values, array.bytes.begin());
    out[name] = std::move(array);
  }
  return out;
}

}  // namespace kinema::agents
