#include "kernels/interpreter/program.h"

#include <utility>

namespace kinema::interpreter {
namespace {

// More than any test needs: a damaged text may contain an endless loop.
constexpr int64_t kMostSteps = 100'000'000;

}  // namespace

Value& Frame::result(int value) {
  Value& out = (*this)[value];
  const auto count = static_cast<size_t>(out.type.elements());
  if (out.has_floats()) {
    out.floats.resize(count);
  } else {
    out.integers.resize(count);
  }
  return out;
}

void Steps::run(Frame& frame) const {
  frame.steps += static_cast<int64_t>(steps.size()) + 1;
  kinema::check(frame.steps < kMostSteps, "[interpreter] more than {} operations", kMostSteps);
  for (const Step& step : steps) step(frame);
}

Program Compiler::compile(std::string_view last) {
  const Operation& op = function_.operation;
  Program out;
  check(op, op.regions.size() == 1, "one region is expected");
  out.arguments = op.regions[0].arguments;
  out.body = block(op, 0, last);
  out.frame.values.reserve(function_.values.size());
  for (const Type& type : function_.values) out.frame.values.emplace_back().type = type;
  for (auto& [value, contents] : constants_) out.frame[value] = std::move(contents);
  return out;
}

Steps Compiler::block(const Operation& op, size_t region, std::string_view last) {
  Steps out;
  const std::vector<Operation>& operations = op.regions.at(region).operations;
  const auto is_last = [&](const Operation& each) { return name(each) == last; };
  check(op, !operations.empty() && is_last(operations.back()), "region {} does not end with {}",
        region, last);
  for (const Operation& each : operations) {
    if (&each == &operations.back()) break;
    const auto rule = rules_.find(name(each));
    check(each, rule != rules_.end(), "no rule for this operation");
    if (Step step = rule->second(*this, each)) out.steps.push_back(std::move(step));
  }
  const Operation& end = operations.back();
  check(end, end.results.empty() && end.regions.empty(), "it gives results");
  out.results = end.operands;
  return out;
}

std::string_view Compiler::name(const Operation& op) const {
  check(op, op.name.starts_with(prefix_), "the operation's name does not begin with `{}`", prefix_);
  return std::string_view(op.name).substr(prefix_.size());
}

void Compiler::set_constant(int value, Value contents) {
  constants_.emplace_back(value, std::move(contents));
}

void Compiler::check_counts(const Operation& op, size_t operands, size_t results) const {
  check(op, op.operands.size() == operands && op.results.size() == results,
        "{} operands and {} results, {} and {} expected", op.operands.size(), op.results.size(),
        operands, results);
}

const Attribute& Compiler::attribute(const Operation& op, const std::string& name,
                                     Attribute::Kind kind) const {
  const auto found = op.attributes.find(name);
  check(op, found != op.attributes.end(), "attribute `{}` is missing", name);
  check(op, found->second.kind == kind, "attribute `{}` is of another kind", name);
  return found->second;
}

int64_t Compiler::integer(const Operation& op, const std::string& name) const {
  return attribute(op, name, Attribute::Kind::INTEGER).integer;
}

Dims Compiler::integers(const Operation& op, const std::string& name) const {
  const auto& list = attribute(op, name, Attribute::Kind::ARRAY);
  return integers_of(list, fmt::format("{}] line {}: [{}", op.name, op.line, name));
}

void Compiler::expect_result(const Operation& op, const Type& type, size_t result) const {
  check(op, result < op.results.size(), "{} results", op.results.size());
  const Type& declared = this->type(op.results[result]);
  check(op, declared == type, "its result is {} but is declared as {}", to_string(type),
        to_string(declared));
}

Dims integers_of(const Attribute& attribute, std::string_view where) {
  Dims out;
  check(attribute.kind == Attribute::Kind::ARRAY, "[{}] a list of integers is expected", where);
  for (const Attribute& item : attribute.items) {
    check(item.kind == Attribute::Kind::INTEGER, "[{}] a list of integers is expected", where);
    out.push_back(item.integer);
  }
  return out;
}

}  // namespace kinema::interpreter
