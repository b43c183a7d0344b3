// scf.if and scf.for.
#include "kernels/interpreter/program.h"

namespace kinema::interpreter {
namespace {

/// Passes values on: into the loop, out of it, or out of a branch.
void copy(Frame& frame, const std::vector<int>& from, const std::vector<int>& to) {
  for (size_t i = 0; i < from.size(); ++i) frame[to[i]] = frame[from[i]];
}

Step if_step(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 1, op.results.size());
  const Type& condition = compiler.type(op.operands[0]);
  compiler.check(op, condition.kind == Type::Kind::SCALAR && condition.element == Element::I1,
                 "its condition is {}", to_string(condition));
  compiler.check(op, op.regions.size() == 2, "{} regions, 2 expected", op.regions.size());
  std::array<Steps, 2> branches;
  for (size_t i = 0; i < 2; ++i) {
    compiler.check(op, op.regions[i].arguments.empty(), "region {} has arguments", i);
    if (i == 1 && op.regions[i].operations.empty() && op.results.empty()) continue;
    branches[i] = compiler.block(op, i, "scf.yield");
    compiler.check(op, compiler.types(branches[i].results) == compiler.types(op.results),
                   "region {} yields {}, {} expected", i,
                   to_string(compiler.types(branches[i].results)),
                   to_string(compiler.types(op.results)));
  }
  return [branches, condition = op.operands[0], results = op.results](Frame& frame) {
    const Steps& taken = branches[frame[condition].integer() != 0 ? 0 : 1];
    taken.run(frame);
    copy(frame, taken.results, results);
  };
}

Step for_step(Compiler& compiler, const Operation& op) {
  compiler.check(op, op.operands.size() >= 3 && op.results.size() == op.operands.size() - 3,
                 "{} operands and {} results", op.operands.size(), op.results.size());
  const std::vector<Type> operands = compiler.types(op.operands);
  compiler.check(op,
                 operands[0].kind == Type::Kind::SCALAR && !is_float(operands[0].element) &&
                     !operands[0].pointer && operands[1] == operands[0] &&
                     operands[2] == operands[0],
                 "its bounds are {}", to_string(operands));
  compiler.check(op, op.regions.size() == 1, "{} regions, 1 expected", op.regions.size());
  const std::vector<int>& arguments = op.regions[0].arguments;
  std::vector<Type> expected{operands[0]};
  expected.insert(expected.end(), operands.begin() + 3, operands.end());
  compiler.check(op, compiler.types(arguments) == expected, "its block takes {}, {} expected",
                 to_string(compiler.types(arguments)), to_string(expected));
  Steps body = compiler.block(op, 0, "scf.yield");
  expected.erase(expected.begin());
  for (const std::vector<int>& values : {body.results, op.results}) {
    compiler.check(op, compiler.types(values) == expected, "it carries {} but yields {}",
                   to_string(expected), to_string(compiler.types(values)));
  }
  const std::vector<int> carried(arguments.begin() + 1, arguments.end());
  const std::vector<int> initial(op.operands.begin() + 3, op.operands.end());
  return [body = std::move(body), place = Place(op), op_operands = op.operands,
          results = op.results, index = arguments[0], carried, initial](Frame& frame) {
    const int64_t first = frame[op_operands[0]].integer();
    const int64_t end = frame[op_operands[1]].integer();
    const int64_t step = frame[op_operands[2]].integer();
    if (step <= 0) place.fail("its step is {}", step);
    copy(frame, initial, carried);
    // The body may yield its arguments in another order.
    std::vector<Value> next(carried.size());
    for (int64_t i = first; i < end; i += step) {
      frame.result(index).integers[0] = i;
      body.run(frame);
      for (size_t c = 0; c < carried.size(); ++c) next[c] = frame[body.results[c]];
      for (size_t c = 0; c < carried.size(); ++c) std::swap(frame[carried[c]], next[c]);
      if (i > end - step) break;  // the sum could overflow int64
    }
    copy(frame, carried, results);
  };
}

}  // namespace

void add_control(Rules* rules) {
  rules->emplace("scf.if", if_step);
  rules->emplace("scf.for", for_step);
}

}  // namespace kinema::interpreter
