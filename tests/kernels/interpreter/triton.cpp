#include "kernels/interpreter/triton.h"

#include <bit>

#include "kernels/interpreter/triton_operations.h"
#include "kinema/core/error.h"

namespace kinema::interpreter {
namespace {

constexpr int64_t kMostPrograms = 10'000'000;

const Rules& triton_rules() {
  static const Rules rules = [] {
    Rules made;
    add_arithmetic(&made);
    add_control(&made);
    add_triton_tensors(&made);
    add_triton_memory(&made);
    return made;
  }();
  return rules;
}

const Function& find(const Module& module, const std::string& name) {
  for (const Function& function : module.functions) {
    const Operation& op = function.operation;
    check(op.name == "tt.func", "[triton] line {}: `{}` is not a tt.func", op.line, op.name);
    const auto found = op.attributes.find("sym_name");
    if (found != op.attributes.end() && found->second.text == name) return function;
  }
  fail("[triton] there is no function @{}", name);
}

// Triton refuses sizes that are not powers of two.
void check_sizes(const Compiler& compiler, const Function& function) {
  for (const Type& type : function.values) {
    compiler.check(function.operation,
                   type.kind == Type::Kind::SCALAR ||
                       (type.kind == Type::Kind::TENSOR &&
                        std::has_single_bit(static_cast<uint64_t>(type.elements()))),
                   "{} is not a tensor of a power of two elements", to_string(type));
  }
}

/// Device arrays, one per pointer.
std::vector<Memory> memories(std::span<const Array> operands, std::span<const Shape> results) {
  std::vector<Memory> out;
  for (const Array& operand : operands) {
    out.push_back({from_array(operand), fmt::format("operand {}", out.size()), true});
  }
  for (const Shape& result : results) {
    Memory memory{.name = fmt::format("result {}", out.size() - operands.size())};
    Type type{.kind = Type::Kind::MEMREF, .element = element_of(result.dtype), .dims = result.dims};
    memory.contents = Value(type);
    spoil(&memory.contents);
    memory.writer.assign(static_cast<size_t>(type.elements()), -1);
    out.push_back(std::move(memory));
  }
  return out;
}

}  // namespace

std::vector<Array> run_triton(const std::string& text, const std::string& function,
                              std::array<int64_t, 3> grid, std::span<const Array> operands,
                              std::span<const Shape> results) {
  const Module module = read_mlir(text);
  const Function& found = find(module, function);
  const Operation& op = found.operation;
  Compiler compiler(found, "", triton_rules());
  check_sizes(compiler, found);
  Program program = compiler.compile("tt.return");
  compiler.check(op, program.body.results.empty(), "it returns something");
  const Attribute& type = compiler.attribute(op, "function_type", Attribute::Kind::FUNCTION);
  const std::vector<Type> arguments = compiler.types(program.arguments);
  compiler.check(op, type.types == arguments && type.results.empty(),
                 "function_type is {} -> {}, {} -> () expected", to_string(type.types),
                 to_string(type.results), to_string(arguments));
  compiler.check(op, arguments.size() == operands.size() + results.size(),
                 "{} arguments for {} operands and {} results", arguments.size(), operands.size(),
                 results.size());
  std::vector<Memory> arrays = memories(operands, results);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Type pointer{.element = arrays[i].contents.type.element, .pointer = true};
    compiler.check(op, arguments[i] == pointer, "argument {} is {}, {} expected", i,
                   to_string(arguments[i]), to_string(pointer));
    program.frame.result(program.arguments[i]).memory = &arrays[i];
  }
  int64_t programs = 1;
  for (const int64_t size : grid) {
    check(size > 0 && size <= kMostPrograms && (programs *= size) <= kMostPrograms,
          "[triton] a grid of {} x {} x {}", grid[0], grid[1], grid[2]);
  }
  Frame& frame = program.frame;
  frame.programs = grid;
  for (frame.writer = 0; frame.writer < programs; ++frame.writer) {
    frame.program = {frame.writer % grid[0], frame.writer / grid[0] % grid[1],
                     frame.writer / grid[0] / grid[1]};
    program.body.run(frame);
  }
  std::vector<Array> out;
  for (size_t i = 0; i < results.size(); ++i) {
    out.push_back(to_array(arrays[operands.size() + i].contents, results[i].dtype));
  }
  return out;
}

}  // namespace kinema::interpreter
