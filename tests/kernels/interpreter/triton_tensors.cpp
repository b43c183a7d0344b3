// tt.* operations that create, move, multiply and reduce tensors.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/interpreter/strided.h"
#include "kernels/interpreter/triton_operations.h"

namespace kinema::interpreter {
namespace {

bool is_tensor(const Type& type) { return type.kind == Type::Kind::TENSOR; }

Type resized(Type type, Dims dims) {
  type.kind = dims.empty() ? Type::Kind::SCALAR : Type::Kind::TENSOR;
  type.dims = std::move(dims);
  return type;
}

const Type& one_tensor(const Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 1, 1);
  const Type& type = compiler.type(op.operands[0]);
  compiler.check(op, is_tensor(type), "its operand is {}", to_string(type));
  return type;
}

/// A step that copies the operand's elements along a walk.
Step walking(const Operation& op, Walk read, const Dims& sizes) {
  return [read = std::move(read), write = Walk{.strides = strides_of(sizes)}, sizes,
          x = op.operands[0], y = op.results[0]](Frame& frame) {
    Value& to = frame.result(y);
    to.memory = frame[x].memory;
    copy_strided(frame[x], read, &to, write, sizes);
  };
}

Step program_id(Compiler& compiler, const Operation& op, bool count) {
  compiler.check_counts(op, 0, 1);
  const int64_t axis = compiler.integer(op, "axis");
  compiler.check(op, axis >= 0 && axis < 3, "axis {}", axis);
  compiler.expect_result(op, Type{.element = Element::I32});
  return [axis = static_cast<size_t>(axis), count, y = op.results[0]](Frame& frame) {
    frame.result(y).integers[0] = count ? frame.programs[axis] : frame.program[axis];
  };
}

Step make_range(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 0, 1);
  const int64_t start = compiler.integer(op, "start");
  const int64_t end = compiler.integer(op, "end");
  compiler.check(op, start < end && end - start <= 1 << 20, "from {} to {}", start, end);
  const Type type{.kind = Type::Kind::TENSOR, .element = Element::I32, .dims = {end - start}};
  compiler.expect_result(op, type);
  Value value(type);
  for (size_t i = 0; i < value.integers.size(); ++i) {
    value.integers[i] = start + static_cast<int64_t>(i);
  }
  compiler.set_constant(op.results[0], std::move(value));
  return {};
}

Step splat(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 1, 1);
  const Type& from = compiler.type(op.operands[0]);
  const Type& to = compiler.type(op.results[0]);
  compiler.check(op, from.kind == Type::Kind::SCALAR && is_tensor(to) && resized(to, {}) == from,
                 "from {} to {}", to_string(from), to_string(to));
  return walking(op, {.strides = Dims(to.dims.size(), 0)}, to.dims);
}

Step expand_dims(Compiler& compiler, const Operation& op) {
  const Type& from = one_tensor(compiler, op);
  const int64_t axis = compiler.integer(op, "axis");
  compiler.check(op, axis >= 0 && axis <= from.rank(), "axis {} of {}", axis, to_string(from));
  Dims dims = from.dims;
  dims.insert(dims.begin() + axis, 1);
  compiler.expect_result(op, resized(from, dims));
  return walking(op, {.strides = strides_of(dims)}, dims);
}

Step reshape(Compiler& compiler, const Operation& op) {
  const Type& from = one_tensor(compiler, op);
  const Type& to = compiler.type(op.results[0]);
  compiler.check(op, !op.attributes.contains("allow_reorder"), "allow_reorder is not covered");
  compiler.check(op,
                 is_tensor(to) && to.elements() == from.elements() && resized(from, to.dims) == to,
                 "from {} to {}", to_string(from), to_string(to));
  return walking(op, {.strides = strides_of(to.dims)}, to.dims);
}

Step broadcast(Compiler& compiler, const Operation& op) {
  const Type& from = one_tensor(compiler, op);
  const Type& to = compiler.type(op.results[0]);
  bool fits = is_tensor(to) && from.rank() == to.rank() && resized(from, to.dims) == to;
  Walk read{.strides = strides_of(from.dims)};
  for (size_t i = 0; fits && i < from.dims.size(); ++i) {
    fits = from.dims[i] == 1 || from.dims[i] == to.dims[i];
    if (from.dims[i] == 1) read.strides[i] = 0;
  }
  compiler.check(op, fits, "from {} to {}", to_string(from), to_string(to));
  return walking(op, read, to.dims);
}

Step transpose(Compiler& compiler, const Operation& op) {
  const Type& from = one_tensor(compiler, op);
  const Dims order = compiler.integers(op, "order");
  Dims sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool fits = order.size() == from.dims.size();
  for (size_t i = 0; i < sorted.size(); ++i) fits = fits && sorted[i] == static_cast<int64_t>(i);
  compiler.check(op, fits, "order {} of {}", to_string(order), to_string(from));
  const Dims strides = strides_of(from.dims);
  Dims dims;
  Walk read;
  for (const int64_t axis : order) {
    dims.push_back(from.dims[static_cast<size_t>(axis)]);
    read.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  compiler.expect_result(op, resized(from, dims));
  return walking(op, read, dims);
}

/// Rounds to 10 bits of mantissa, to nearest even; NaN and infinity stay.
float to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU);
}

// Triton's enumeration InputPrecision.
enum InputPrecision : int64_t { TF32 = 0, TF32X3 = 1, IEEE = 2 };

Step dot(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 3, 1);
  const std::vector<Type> types = compiler.types(op.operands);
  const auto fits = [](const Type& type) {
    return is_tensor(type) && !type.pointer && type.rank() == 2 && is_float(type.element);
  };
  compiler.check(op,
                 fits(types[0]) && fits(types[1]) && types[0].element == types[1].element &&
                     types[0].dims[1] == types[1].dims[0],
                 "its operands are {}", to_string(types));
  const int64_t m = types[0].dims[0];
  const int64_t k = types[0].dims[1];
  const int64_t n = types[1].dims[1];
  Type product{.kind = Type::Kind::TENSOR, .element = Element::F32, .dims = {m, n}};
  compiler.check(op, types[2] == product, "its accumulator is {}", to_string(types[2]));
  compiler.expect_result(op, product);
  const int64_t precision =
      op.attributes.contains("inputPrecision") ? compiler.integer(op, "inputPrecision") : IEEE;
  compiler.check(op, precision >= TF32 && precision <= IEEE, "inputPrecision {}", precision);
  const bool narrow = precision == TF32 && types[0].element == Element::F32;
  return [=, operands = op.operands, y = op.results[0]](Frame& frame) {
    std::vector<float> a = frame[operands[0]].floats;
    std::vector<float> b = frame[operands[1]].floats;
    if (narrow) {
      std::transform(a.begin(), a.end(), a.begin(), to_tf32);
      std::transform(b.begin(), b.end(), b.begin(), to_tf32);
    }
    Value& out = frame.result(y);
    out.floats = frame[operands[2]].floats;
    multiply_add(a.data(), b.data(), out.floats.data(), m, k, n);
  };
}

enum class Combination : uint8_t { ADD, MAXNUM, MINNUM, MAXIMUM, MINIMUM };

double combine(Combination by, double a, double b) {
  switch (by) {
    case Combination::ADD:
      return a + b;
    case Combination::MAXNUM:
      return std::fmax(a, b);
    case Combination::MINNUM:
      return std::fmin(a, b);
    case Combination::MAXIMUM:
      return a > b || a != a ? a : b;
    default:
      return a < b || a != a ? a : b;
  }
}

/// The only operation of a region, on its two arguments.
Combination combination_of(Compiler& compiler, const Operation& op, Element element) {
  compiler.check(op,
                 op.regions.size() == 1 && op.regions[0].arguments.size() == 2 &&
                     op.regions[0].operations.size() == 2,
                 "its region does not consist of one operation on two values");
  const Steps checked = compiler.block(op, 0, "tt.reduce.return");
  const Block& block = op.regions[0];
  const Type scalar{.element = element};
  compiler.check(op, compiler.types(block.arguments) == std::vector<Type>(2, scalar),
                 "its region takes {}", to_string(compiler.types(block.arguments)));
  const Operation& inner = block.operations[0];
  std::vector<int> reversed(block.arguments.rbegin(), block.arguments.rend());
  compiler.check(op,
                 (inner.operands == block.arguments || inner.operands == reversed) &&
                     checked.results == inner.results,
                 "its region does not return one operation on two values");
  constexpr std::pair<std::string_view, Combination> kCombinations[] = {
      {"arith.addf", Combination::ADD},
      {"arith.maxnumf", Combination::MAXNUM},
      {"arith.minnumf", Combination::MINNUM},
      {"arith.maximumf", Combination::MAXIMUM},
      {"arith.minimumf", Combination::MINIMUM}};
  for (const auto& [name, combination] : kCombinations) {
    if (inner.name == name) return combination;
  }
  compiler.check(op, false, "reduction by {} is not covered", inner.name);
  return Combination::ADD;
}

Step reduce(Compiler& compiler, const Operation& op) {
  const Type& from = one_tensor(compiler, op);
  const int64_t axis = compiler.integer(op, "axis");
  compiler.check(op, axis >= 0 && axis < from.rank() && !from.pointer && from.elements() > 0,
                 "axis {} of {}", axis, to_string(from));
  const Combination by = combination_of(compiler, op, from.element);
  Dims kept = from.dims;
  const int64_t count = kept[static_cast<size_t>(axis)];
  kept.erase(kept.begin() + axis);
  compiler.expect_result(op, resized(from, kept));
  const int64_t stride = strides_of(from.dims)[static_cast<size_t>(axis)];
  return [by, count, stride, element = from.element, x = op.operands[0],
          y = op.results[0]](Frame& frame) {
    const std::vector<float>& values = frame[x].floats;
    std::vector<float>& to = frame.result(y).floats;
    for (size_t i = 0; i < to.size(); ++i) {
      const int64_t outer = static_cast<int64_t>(i) / stride;
      const int64_t first = outer * stride * count + static_cast<int64_t>(i) % stride;
      // The order of the threads is unknown, so the sum is computed in double.
      double sum = values[static_cast<size_t>(first)];
      for (int64_t j = 1; j < count; ++j) {
        sum = combine(by, sum, values[static_cast<size_t>(first + j * stride)]);
      }
      to[i] = rounded_to(element, static_cast<float>(sum));
    }
  };
}

}  // namespace

void add_triton_tensors(Rules* rules) {
  rules->emplace("tt.get_program_id", [](Compiler& compiler, const Operation& op) {
    return program_id(compiler, op, false);
  });
  rules->emplace("tt.get_num_programs", [](Compiler& compiler, const Operation& op) {
    return program_id(compiler, op, true);
  });
  rules->emplace("tt.make_range", make_range);
  rules->emplace("tt.splat", splat);
  rules->emplace("tt.expand_dims", expand_dims);
  rules->emplace("tt.reshape", reshape);
  rules->emplace("tt.broadcast", broadcast);
  rules->emplace("tt.trans", transpose);
  rules->emplace("tt.dot", dot);
  rules->emplace("tt.reduce", reduce);
}

}  // namespace kinema::interpreter
