#include "kinema/runtime/piece_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kinema/graph/ops.h"

namespace kinema::runtime {

PartCompiler::PartCompiler(const pjrt::Client& client, const ProgramOptions& options,
                           ProgramReport& report)
    : client_(client), options_(options), report_(report) {
  options_.jit = true;  // each piece is a complete program
  options_.emit.donate.clear();
  report_.from_cache = true;
}

std::unique_ptr<Program> PartCompiler::operator()(const Graph& graph,
                                                  std::span<const Tensor> outputs,
                                                  const std::string& block,
                                                  std::map<int64_t, int64_t> donate) {
  ProgramOptions options = options_;
  std::string name = block.empty() ? "step" : block;
  std::ranges::replace(name, '/', '-');
  options.name = fmt::format("{}.{:04}.{}", options_.name, count_++, name);
  options.output_names.clear();
  options.emit.donate = std::move(donate);
  auto program = std::make_unique<Program>(Program::compile(client_, graph, outputs, options));
  const ProgramReport& one = program->report();
  report_.emit_seconds += one.emit_seconds;
  report_.compile_seconds += one.compile_seconds;
  report_.from_cache = report_.from_cache && one.from_cache;
  report_.text_bytes += one.text_bytes;
  report_.memory.code += one.memory.code;
  report_.memory.temporary =
      std::max(report_.memory.temporary, one.memory.temporary + one.memory.outputs);
  return program;
}

std::vector<Value> run_program(const Program& program, std::span<const Value> arguments) {
  std::vector<const pjrt::Buffer*> pointers;
  for (const Value& each : arguments) {
    pointers.push_back(each.get());
  }
  std::vector<Value> out;
  for (pjrt::Buffer& result : program.run(pointers)) {
    result.await();
    out.push_back(std::make_shared<pjrt::Buffer>(std::move(result)));
  }
  return out;
}

std::unique_ptr<Program> compile_split(const Shape& stack, PartCompiler& compile) {
  Graph graph;
  const Tensor x = graph.input(stack, "stack");
  std::vector<Tensor> slices;
  for (int64_t i = 0; i < stack.dims[0]; ++i) {
    slices.push_back(squeeze(slice(x, Axis(0), i, 1), Axis(0)));
  }
  return compile(graph, slices, "split");
}

std::unique_ptr<Program> compile_join(const Shape& stack, PartCompiler& compile) {
  Graph graph;
  std::vector<Tensor> slices;
  const Shape one{stack.dtype, {stack.dims.begin() + 1, stack.dims.end()}};
  for (int64_t i = 0; i < stack.dims[0]; ++i) {
    slices.push_back(expand_dims(graph.input(one), Axis(0)));
  }
  const std::vector<Tensor> outputs{concatenate(std::move(slices), Axis(0))};
  return compile(graph, outputs, "join");
}

}  // namespace kinema::runtime
