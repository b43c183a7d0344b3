// arith.* and math.*, on scalars, vectors and tensors.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "kernels/interpreter/program.h"

namespace kinema::interpreter {
namespace {

bool holds_numbers(const Type& type) { return type.kind != Type::Kind::MEMREF && !type.pointer; }

bool same_but_element(Type a, const Type& b) {
  a.element = b.element;
  return a == b && holds_numbers(a);
}

/// The common type of all operands and the result.
Type common_type(const Compiler& compiler, const Operation& op, size_t operands, bool floats) {
  compiler.check_counts(op, operands, 1);
  const std::vector<Type> types = compiler.types(op.operands);
  for (const Type& type : types) {
    compiler.check(op, type == types[0], "its operands are {}", to_string(types));
  }
  compiler.check(op, holds_numbers(types[0]) && is_float(types[0].element) == floats,
                 "an operand is {}", to_string(types[0]));
  compiler.expect_result(op, types[0]);
  return types[0];
}

template <typename Function>
Rule float_unary(Function function) {
  return [function](Compiler& compiler, const Operation& op) -> Step {
    const Element element = common_type(compiler, op, 1, true).element;
    return [function, element, x = op.operands[0], y = op.results[0]](Frame& frame) {
      const std::vector<float>& from = frame[x].floats;
      std::vector<float>& to = frame.result(y).floats;
      for (size_t i = 0; i < to.size(); ++i) to[i] = function(from[i]);
      round_to(element, to);
    };
  };
}

template <typename Function>
Rule float_binary(Function function) {
  return [function](Compiler& compiler, const Operation& op) -> Step {
    const Element element = common_type(compiler, op, 2, true).element;
    return [function, element, a = op.operands[0], b = op.operands[1],
            y = op.results[0]](Frame& frame) {
      const std::vector<float>& left = frame[a].floats;
      const std::vector<float>& right = frame[b].floats;
      std::vector<float>& to = frame.result(y).floats;
      for (size_t i = 0; i < to.size(); ++i) to[i] = function(left[i], right[i]);
      round_to(element, to);
    };
  };
}

/// `function(a, b)`, or with the Place for functions that are not defined everywhere.
template <typename Function>
Rule integer_binary(Function function) {
  return [function](Compiler& compiler, const Operation& op) -> Step {
    const Element element = common_type(compiler, op, 2, false).element;
    return [function, element, place = Place(op), a = op.operands[0], b = op.operands[1],
            y = op.results[0]](Frame& frame) {
      const std::vector<int64_t>& left = frame[a].integers;
      const std::vector<int64_t>& right = frame[b].integers;
      std::vector<int64_t>& to = frame.result(y).integers;
      for (size_t i = 0; i < to.size(); ++i) {
        if constexpr (std::is_invocable_v<Function, int64_t, int64_t>) {
          to[i] = wrapped_to(element, function(left[i], right[i]));
        } else {
          to[i] = wrapped_to(element, function(left[i], right[i], place));
        }
      }
    };
  };
}

/// Computes on the bits, so that overflow wraps around.
template <typename Function>
Rule wrapping(Function function) {
  return integer_binary([function](int64_t a, int64_t b) {
    return static_cast<int64_t>(function(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  });
}

int64_t divide(int64_t a, int64_t b, const Place& place) {
  if (b == 0) place.fail("division of {} by 0", a);
  return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}

int64_t remainder(int64_t a, int64_t b, const Place& place) {
  if (b == 0) place.fail("division of {} by 0", a);
  return b == -1 ? 0 : a % b;
}

// maximumf and minimumf return NaN if either operand is NaN; maxnumf and minnumf return the other
// operand.
float maximum(float a, float b) { return a > b || a != a ? a : b; }
float minimum(float a, float b) { return a < b || a != a ? a : b; }

Step constant(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 0, 1);
  const Type& type = compiler.type(op.results[0]);
  compiler.check(op, holds_numbers(type), "a constant of type {}", to_string(type));
  const auto found = op.attributes.find("value");
  compiler.check(op, found != op.attributes.end(), "attribute `value` is missing");
  const Attribute* number = &found->second;
  using Kind = Attribute::Kind;
  const bool dense = number->kind == Kind::DENSE;
  compiler.check(op, dense == (type.kind != Type::Kind::SCALAR), "its value is not a {}",
                 to_string(type));
  Type of = number->value_type;
  if (dense) number = &number->items[0];
  if (number->kind == Kind::BOOL && !dense) of.element = Element::I1;
  compiler.check(
      op,
      number->kind == Kind::FLOAT || number->kind == Kind::INTEGER || number->kind == Kind::BOOL,
      "its value is not a number");
  compiler.check(op, of == type, "its value is {} but it is declared as {}", to_string(of),
                 to_string(type));
  Value value(type);
  std::fill(value.floats.begin(), value.floats.end(),
            rounded_to(type.element, static_cast<float>(number->number)));
  std::fill(value.integers.begin(), value.integers.end(),
            wrapped_to(type.element, number->integer));
  compiler.set_constant(op.results[0], std::move(value));
  return {};
}

template <typename T>
bool compare(int64_t predicate, T a, T b) {
  switch (predicate) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return a < b;
    case 3:
      return a <= b;
    case 4:
      return a > b;
    default:
      return a >= b;
  }
}

Step compare_integers(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 2, 1);
  Type type = compiler.type(op.operands[0]);
  compiler.check(
      op, compiler.type(op.operands[1]) == type && holds_numbers(type) && !is_float(type.element),
      "its operands are {}", to_string(compiler.types(op.operands)));
  // eq ne slt sle sgt sge ult ule ugt uge
  int64_t predicate = compiler.integer(op, "predicate");
  compiler.check(op, predicate >= 0 && predicate < 10, "predicate {}", predicate);
  compiler.check(op, type.element != Element::I1 || predicate < 2, "i1 has no order");
  const bool is_unsigned = predicate >= 6;
  if (is_unsigned) predicate -= 4;
  type.element = Element::I1;
  compiler.expect_result(op, type);
  return [predicate, is_unsigned, a = op.operands[0], b = op.operands[1],
          y = op.results[0]](Frame& frame) {
    const std::vector<int64_t>& left = frame[a].integers;
    const std::vector<int64_t>& right = frame[b].integers;
    std::vector<int64_t>& to = frame.result(y).integers;
    for (size_t i = 0; i < to.size(); ++i) {
      // Sign extension keeps the order of unsigned numbers.
      to[i] = is_unsigned ? compare(predicate, static_cast<uint64_t>(left[i]),
                                    static_cast<uint64_t>(right[i]))
                          : compare(predicate, left[i], right[i]);
    }
  };
}

// predicates: 0 false, 1-6 oeq ogt oge olt ole one, 7 ord, 8-13 ueq ugt uge ult ule une, 14 uno, 15
bool compare_floats_by(int64_t predicate, float a, float b) {
  const bool unordered = a != a || b != b;
  const bool by[] = {false, a == b, a > b, a >= b, a < b, a <= b, a != b, true};
  if (predicate < 8) return !unordered && by[predicate];
  if (predicate == 14) return unordered;
  if (predicate == 15) return true;
  return unordered || by[predicate - 7];
}

Step compare_floats(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 2, 1);
  Type type = compiler.type(op.operands[0]);
  compiler.check(
      op, compiler.type(op.operands[1]) == type && holds_numbers(type) && is_float(type.element),
      "its operands are {}", to_string(compiler.types(op.operands)));
  const int64_t predicate = compiler.integer(op, "predicate");
  compiler.check(op, predicate >= 0 && predicate < 16, "predicate {}", predicate);
  type.element = Element::I1;
  compiler.expect_result(op, type);
  return [predicate, a = op.operands[0], b = op.operands[1], y = op.results[0]](Frame& frame) {
    const std::vector<float>& left = frame[a].floats;
    const std::vector<float>& right = frame[b].floats;
    std::vector<int64_t>& to = frame.result(y).integers;
    for (size_t i = 0; i < to.size(); ++i) to[i] = compare_floats_by(predicate, left[i], right[i]);
  };
}

template <typename T>
void choose(const std::vector<int64_t>& condition, const std::vector<T>& a, const std::vector<T>& b,
            std::vector<T>* to) {
  const size_t stride = condition.size() == 1 ? 0 : 1;
  for (size_t i = 0; i < to->size(); ++i) (*to)[i] = condition[i * stride] != 0 ? a[i] : b[i];
}

Step select(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 3, 1);
  const std::vector<Type> types = compiler.types(op.operands);
  Type condition = types[1];
  condition.element = Element::I1;
  const Type scalar{.element = Element::I1};
  compiler.check(op,
                 holds_numbers(types[1]) && types[1] == types[2] &&
                     (types[0] == condition || types[0] == scalar),
                 "its operands are {}", to_string(types));
  compiler.expect_result(op, types[1]);
  return [operands = op.operands, y = op.results[0]](Frame& frame) {
    Value& to = frame.result(y);
    const Value& a = frame[operands[1]];
    const Value& b = frame[operands[2]];
    choose(frame[operands[0]].integers, a.floats, b.floats, &to.floats);
    choose(frame[operands[0]].integers, a.integers, b.integers, &to.integers);
  };
}

enum class Width : uint8_t { WIDER, NARROWER, ANY, INDEX };

/// The source and the target type, which differ only in their element.
std::pair<Element, Element> cast_types(const Compiler& compiler, const Operation& op,
                                       bool from_float, bool to_float, Width allowed) {
  compiler.check_counts(op, 1, 1);
  const Type& from = compiler.type(op.operands[0]);
  const Type& to = compiler.type(op.results[0]);
  const int difference = width(to.element) - width(from.element);
  const int indices = (from.element == Element::INDEX) + (to.element == Element::INDEX);
  const bool ok = allowed == Width::WIDER      ? difference > 0 && indices == 0
                  : allowed == Width::NARROWER ? difference < 0 && indices == 0
                  : allowed == Width::INDEX    ? indices == 1
                                               : indices == 0;
  compiler.check(op,
                 ok && same_but_element(from, to) && is_float(from.element) == from_float &&
                     is_float(to.element) == to_float,
                 "from {} to {}", to_string(from), to_string(to));
  return {from.element, to.element};
}

Rule float_cast(Width allowed) {
  return [allowed](Compiler& compiler, const Operation& op) -> Step {
    const Element to = cast_types(compiler, op, true, true, allowed).second;
    return [to, x = op.operands[0], y = op.results[0]](Frame& frame) {
      Value& out = frame.result(y);
      out.floats = frame[x].floats;
      round_to(to, out.floats);
    };
  };
}

/// `function(value, from)` before overflow wraps around.
template <typename Function>
Rule integer_cast(Width allowed, Function function) {
  return [allowed, function](Compiler& compiler, const Operation& op) -> Step {
    const auto [from, to] = cast_types(compiler, op, false, false, allowed);
    return [function, from = from, to = to, x = op.operands[0], y = op.results[0]](Frame& frame) {
      const std::vector<int64_t>& values = frame[x].integers;
      std::vector<int64_t>& out = frame.result(y).integers;
      for (size_t i = 0; i < out.size(); ++i) out[i] = wrapped_to(to, function(values[i], from));
    };
  };
}

int64_t sign_extended(int64_t value, Element from) { return from == Element::I1 ? -value : value; }

int64_t zero_extended(int64_t value, Element from) {
  const int bits = width(from);
  return bits == 64 ? value : value & ((int64_t{1} << bits) - 1);
}

Rule to_float(int64_t (*extended)(int64_t, Element)) {
  return [extended](Compiler& compiler, const Operation& op) -> Step {
    const auto [from, to] = cast_types(compiler, op, false, true, Width::ANY);
    return [extended, from = from, to = to, x = op.operands[0], y = op.results[0]](Frame& frame) {
      const std::vector<int64_t>& values = frame[x].integers;
      std::vector<float>& out = frame.result(y).floats;
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = rounded_to(to, static_cast<float>(extended(values[i], from)));
      }
    };
  };
}

Step to_integer(Compiler& compiler, const Operation& op) {
  const Element to = cast_types(compiler, op, true, false, Width::ANY).second;
  return [to, place = Place(op), x = op.operands[0], y = op.results[0]](Frame& frame) {
    const std::vector<float>& values = frame[x].floats;
    std::vector<int64_t>& out = frame.result(y).integers;
    const float limit = std::ldexp(1.0F, width(to) - 1);
    for (size_t i = 0; i < out.size(); ++i) {
      const float value = std::trunc(values[i]);
      if (!(value >= -limit && value < limit)) {
        place.fail("{} is not of type {}", values[i], to_string(to));
      }
      out[i] = static_cast<int64_t>(value);
    }
  };
}

void add_floats(Rules* rules) {
  const auto unary = [&](const char* name, auto f) { rules->emplace(name, float_unary(f)); };
  const auto binary = [&](const char* name, auto f) { rules->emplace(name, float_binary(f)); };
  binary("arith.addf", std::plus<>());
  binary("arith.subf", std::minus<>());
  binary("arith.mulf", std::multiplies<>());
  binary("arith.divf", std::divides<>());
  binary("arith.maximumf", [](float a, float b) { return maximum(a, b); });
  binary("arith.minimumf", [](float a, float b) { return minimum(a, b); });
  binary("arith.maxnumf", [](float a, float b) { return std::fmax(a, b); });
  binary("arith.minnumf", [](float a, float b) { return std::fmin(a, b); });
  unary("arith.negf", std::negate<>());
  unary("math.exp", [](float x) { return std::exp(x); });
  unary("math.exp2", [](float x) { return std::exp2(x); });
  unary("math.log", [](float x) { return std::log(x); });
  unary("math.log2", [](float x) { return std::log2(x); });
  unary("math.absf", [](float x) { return std::abs(x); });
  unary("math.tanh", [](float x) { return std::tanh(x); });
  unary("math.sqrt", [](float x) { return std::sqrt(x); });
  unary("math.rsqrt", [](float x) { return 1.0F / std::sqrt(x); });
  unary("tpu.reciprocal", [](float x) { return 1.0F / x; });
}

void add_integers(Rules* rules) {
  const auto binary = [&](const char* name, auto f) { rules->emplace(name, integer_binary(f)); };
  rules->emplace("arith.addi", wrapping(std::plus<>()));
  rules->emplace("arith.subi", wrapping(std::minus<>()));
  rules->emplace("arith.muli", wrapping(std::multiplies<>()));
  rules->emplace("arith.andi", wrapping(std::bit_and<>()));
  rules->emplace("arith.ori", wrapping(std::bit_or<>()));
  rules->emplace("arith.xori", wrapping(std::bit_xor<>()));
  binary("arith.divsi", divide);
  binary("arith.remsi", remainder);
  binary("arith.minsi", [](int64_t a, int64_t b) { return std::min(a, b); });
  binary("arith.maxsi", [](int64_t a, int64_t b) { return std::max(a, b); });
}

}  // namespace

void add_arithmetic(Rules* rules) {
  add_floats(rules);
  add_integers(rules);
  rules->emplace("arith.constant", constant);
  rules->emplace("arith.cmpi", compare_integers);
  rules->emplace("arith.cmpf", compare_floats);
  rules->emplace("arith.select", select);
  rules->emplace("arith.extf", float_cast(Width::WIDER));
  rules->emplace("arith.truncf", float_cast(Width::NARROWER));
  rules->emplace("arith.extsi", integer_cast(Width::WIDER, sign_extended));
  rules->emplace("arith.extui", integer_cast(Width::WIDER, zero_extended));
  rules->emplace("arith.trunci", integer_cast(Width::NARROWER, sign_extended));
  rules->emplace("arith.index_cast", integer_cast(Width::INDEX, sign_extended));
  rules->emplace("arith.sitofp", to_float(sign_extended));
  rules->emplace("arith.uitofp", to_float(zero_extended));
  rules->emplace("arith.fptosi", to_integer);
}

}  // namespace kinema::interpreter
