// vector.* and tpu.*, except memory operations.
#include <algorithm>
#include <functional>

#include "kernels/interpreter/mosaic_operations.h"
#include "kernels/interpreter/strided.h"

namespace kinema::interpreter {
namespace {

bool is_vector(const Type& type) { return type.kind == Type::Kind::VECTOR; }

Type vector_of(Element element, Dims dims) {
  return {.kind = Type::Kind::VECTOR, .element = element, .dims = std::move(dims)};
}

/// The type of the only operand, a vector, after checking that there is one result.
const Type& one_vector(const Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 1, 1);
  const Type& type = compiler.type(op.operands[0]);
  compiler.check(op, is_vector(type), "its operand is {}", to_string(type));
  return type;
}

Step broadcast(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 1, 1);
  const Type& from = compiler.type(op.operands[0]);
  const Type& to = compiler.type(op.results[0]);
  bool fits = from.kind != Type::Kind::MEMREF && is_vector(to) && from.element == to.element &&
              from.rank() <= to.rank();
  Walk read{.strides = Dims(to.dims.size(), 0)};
  const Dims strides = strides_of(from.dims);
  for (size_t i = 0; fits && i < from.dims.size(); ++i) {
    const size_t axis = i + to.dims.size() - from.dims.size();
    fits = from.dims[i] == 1 || from.dims[i] == to.dims[axis];
    read.strides[axis] = from.dims[i] == 1 ? 0 : strides[i];
  }
  compiler.check(op, fits, "from {} to {}", to_string(from), to_string(to));
  const Walk write{.strides = strides_of(to.dims)};
  return [read, write, sizes = to.dims, x = op.operands[0], y = op.results[0]](Frame& frame) {
    copy_strided(frame[x], read, &frame.result(y), write, sizes);
  };
}

Step shape_cast(Compiler& compiler, const Operation& op) {
  const Type& from = one_vector(compiler, op);
  const Type& to = compiler.type(op.results[0]);
  compiler.check(op,
                 is_vector(to) && from.element == to.element && from.elements() == to.elements(),
                 "from {} to {}", to_string(from), to_string(to));
  return [x = op.operands[0], y = op.results[0]](Frame& frame) {
    Value& to = frame.result(y);
    to.floats = frame[x].floats;
    to.integers = frame[x].integers;
  };
}

Step transpose(Compiler& compiler, const Operation& op) {
  const Type& from = one_vector(compiler, op);
  const Dims order = compiler.integers(op, "permutation");
  Dims sorted = order;
  std::sort(sorted.begin(), sorted.end());
  Dims dims, strides;
  for (size_t i = 0; i < order.size(); ++i) {
    compiler.check(op, sorted[i] == static_cast<int64_t>(i), "permutation {}", to_string(order));
  }
  compiler.check(op, order.size() == from.dims.size(), "permutation {} of {}", to_string(order),
                 to_string(from));
  const Dims from_strides = strides_of(from.dims);
  for (const int64_t axis : order) {
    dims.push_back(from.dims[static_cast<size_t>(axis)]);
    strides.push_back(from_strides[static_cast<size_t>(axis)]);
  }
  compiler.expect_result(op, vector_of(from.element, dims));
  const Walk write{.strides = strides_of(dims)};
  return [read = Walk{.strides = strides}, write, dims, x = op.operands[0], y = op.results[0]](
             Frame& frame) { copy_strided(frame[x], read, &frame.result(y), write, dims); };
}

Step slice(Compiler& compiler, const Operation& op) {
  const Type& from = one_vector(compiler, op);
  const Dims offsets = compiler.integers(op, "offsets");
  const Dims sizes = compiler.integers(op, "sizes");
  const Dims steps = compiler.integers(op, "strides");
  const size_t rank = from.dims.size();
  compiler.check(op, offsets.size() == rank && sizes.size() == rank && steps.size() == rank,
                 "{} offsets of {}", offsets.size(), to_string(from));
  const Dims strides = strides_of(from.dims);
  Walk read{.strides = strides};
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = from.dims[i];
    const auto within = [&](int64_t x, int64_t least) { return x >= least && x <= size; };
    compiler.check(op,
                   within(offsets[i], 0) && within(sizes[i], 1) && within(steps[i], 1) &&
                       offsets[i] + (sizes[i] - 1) * steps[i] < size,
                   "dimension {} of {} has no {} elements from {} on", i, to_string(from), sizes[i],
                   offsets[i]);
    read.start += offsets[i] * strides[i];
    read.strides[i] *= steps[i];
  }
  compiler.expect_result(op, vector_of(from.element, sizes));
  const Walk write{.strides = strides_of(sizes)};
  return [read, write, sizes, x = op.operands[0], y = op.results[0]](Frame& frame) {
    copy_strided(frame[x], read, &frame.result(y), write, sizes);
  };
}

/// Concatenates the operands, `times` over, along `axis`.
Step join(Compiler& compiler, const Operation& op, int64_t axis, int64_t times) {
  const std::vector<Type> types = compiler.types(op.operands);
  compiler.check(op, !types.empty() && times > 0 && times <= 1 << 16, "nothing to join");
  compiler.check(op, is_vector(types[0]) && axis >= 0 && axis < types[0].rank(),
                 "dimension {} of {}", axis, to_string(types[0]));
  Type joined = types[0];
  int64_t& size = joined.dims[static_cast<size_t>(axis)];
  size = 0;
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < times; ++i) {
    for (const Type& type : types) {
      Type same = type;
      compiler.check(op, type.rank() == joined.rank(), "its operands are {}", to_string(types));
      same.dims[static_cast<size_t>(axis)] = types[0].dims[static_cast<size_t>(axis)];
      compiler.check(op, same == types[0], "its operands are {}", to_string(types));
      starts.push_back(size);
      size += type.dims[static_cast<size_t>(axis)];
    }
  }
  compiler.expect_result(op, joined);
  const Dims strides = strides_of(joined.dims);
  return [strides, starts, axis, operands = op.operands, y = op.results[0]](Frame& frame) {
    Value& to = frame.result(y);
    for (size_t i = 0; i < starts.size(); ++i) {
      const Value& from = frame[operands[i % operands.size()]];
      copy_strided(from, {.strides = strides_of(from.type.dims)}, &to,
                   {.start = starts[i] * strides[static_cast<size_t>(axis)], .strides = strides},
                   from.type.dims);
    }
  };
}

Step concatenate(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, op.operands.size(), 1);
  return join(compiler, op, compiler.integer(op, "dimension"), 1);
}

Step repeat(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 1, 1);
  return join(compiler, op, compiler.integer(op, "dimension"), compiler.integer(op, "times"));
}

Step iota(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 0, 1);
  const Type& type = compiler.type(op.results[0]);
  const Dims axes = compiler.integers(op, "dimensions");
  compiler.check(op,
                 is_vector(type) && !is_float(type.element) && axes.size() == 1 && axes[0] >= 0 &&
                     axes[0] < type.rank(),
                 "dimensions {} of {}", to_string(axes), to_string(type));
  const auto axis = static_cast<size_t>(axes[0]);
  Value value(type);
  const int64_t stride = strides_of(type.dims)[axis];
  for (size_t i = 0; i < value.integers.size(); ++i) {
    value.integers[i] = static_cast<int64_t>(i) / stride % type.dims[axis];
  }
  compiler.set_constant(op.results[0], std::move(value));
  return {};
}

enum class Reduction : uint8_t { ADD, MAXIMUM, MINIMUM };

double reduce(Reduction kind, double a, double b) {
  if (kind == Reduction::ADD) return a + b;
  const bool first = kind == Reduction::MAXIMUM ? a > b : a < b;
  return first || a != a ? a : b;
}

Step multi_reduction(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 2, 1);
  const Type& from = compiler.type(op.operands[0]);
  const std::string& name = compiler.attribute(op, "kind", Attribute::Kind::DIALECT).body;
  const Reduction kind = name == "add"        ? Reduction::ADD
                         : name == "maximumf" ? Reduction::MAXIMUM
                                              : Reduction::MINIMUM;
  compiler.check(op, kind != Reduction::MINIMUM || name == "minimumf", "kind {}", name);
  const Dims axes = compiler.integers(op, "reduction_dims");
  compiler.check(op, is_vector(from) && is_float(from.element), "its operand is {}",
                 to_string(from));
  const Dims strides = strides_of(from.dims);
  Dims kept, kept_strides, reduced, reduced_strides;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    const bool is_reduced = std::count(axes.begin(), axes.end(), static_cast<int64_t>(i)) == 1;
    (is_reduced ? reduced : kept).push_back(from.dims[i]);
    (is_reduced ? reduced_strides : kept_strides).push_back(strides[i]);
  }
  compiler.check(op, !axes.empty() && reduced.size() == axes.size(), "dimensions {} of {}",
                 to_string(axes), to_string(from));
  Type to = vector_of(from.element, kept);
  if (kept.empty()) to.kind = Type::Kind::SCALAR;
  compiler.check(op, compiler.type(op.operands[1]) == to, "it starts with {}",
                 to_string(compiler.type(op.operands[1])));
  compiler.expect_result(op, to);
  // Reduced dimensions go last.
  Dims sizes = kept;
  sizes.insert(sizes.end(), reduced.begin(), reduced.end());
  kept_strides.insert(kept_strides.end(), reduced_strides.begin(), reduced_strides.end());
  return [kind, sizes, read = Walk{.strides = kept_strides}, element = to.element,
          rows = to.elements(), x = op.operands[0], start = op.operands[1],
          y = op.results[0]](Frame& frame) {
    Value ordered(vector_of(element, sizes));
    copy_strided(frame[x], read, &ordered, {.strides = strides_of(sizes)}, sizes);
    std::vector<float>& to = frame.result(y).floats;
    const auto count = rows == 0 ? size_t{0} : ordered.floats.size() / static_cast<size_t>(rows);
    for (size_t row = 0; row < to.size(); ++row) {
      // The chip's order of additions is unknown, so the sum is computed in double.
      double sum = frame[start].floats[row];
      for (size_t i = 0; i < count; ++i) sum = reduce(kind, sum, ordered.floats[row * count + i]);
      to[row] = rounded_to(element, static_cast<float>(sum));
    }
  };
}

/// The contracted dimensions of a product's operands: `<[1], [0], [0], [1], [0, 0, 1, 1], [], []>`.
struct Contraction {
  bool left_first = false, right_first = true;  // the order of [k, m], [k, n]
};

Contraction contraction_of(const Compiler& compiler, const Operation& op) {
  const Attribute& numbers = compiler.attribute(op, "dimension_numbers", Attribute::Kind::DIALECT);
  std::vector<Dims> lists;
  for (const Attribute& list : numbers.items) lists.push_back(integers_of(list, op.name));
  const auto axis = [&](size_t list) { return lists[list][0]; };
  bool ok = numbers.text == "tpu.dot_dimension_numbers" && lists.size() == 7;
  for (size_t i = 0; ok && i < 4; ++i) {
    ok = lists[i].size() == 1 && (axis(i) == 0 || axis(i) == 1);
  }
  ok = ok && axis(0) != axis(2) && axis(1) != axis(3) && lists[5].empty() && lists[6].empty() &&
       lists[4] == Dims{0, axis(2), 1, axis(3)};
  compiler.check(op, ok, "dimension_numbers <{}>", numbers.body);
  return {.left_first = axis(0) == 0, .right_first = axis(1) == 0};
}

/// Whether f32 operands are rounded to bf16 first, as in a product without `precision`.
bool is_single_pass(const Compiler& compiler, const Operation& op) {
  if (!op.attributes.contains("precision")) return true;
  const Attribute& precision = compiler.attribute(op, "precision", Attribute::Kind::DIALECT);
  compiler.check(op,
                 precision.text == "tpu.contract_precision" &&
                     (precision.body == "fp32" || precision.body == "bf16"),
                 "precision {}<{}>", precision.text, precision.body);
  return precision.body == "bf16";
}

/// A matrix as untransposed [rows, columns], rounded if `narrow`.
std::vector<float> ordered(const Value& value, bool transposed, bool narrow) {
  const Dims& dims = value.type.dims;
  Value out(value.type);
  if (transposed) {
    const Dims sizes{dims[1], dims[0]};
    copy_strided(value, {.strides = {1, dims[1]}}, &out, {.strides = strides_of(sizes)}, sizes);
  } else {
    out.floats = value.floats;
  }
  if (narrow) round_to(Element::BF16, out.floats);
  return std::move(out.floats);
}

Step matmul(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 3, 1);
  const std::vector<Type> types = compiler.types(op.operands);
  const auto operand_fits = [](const Type& type) {
    return is_vector(type) && type.rank() == 2 &&
           (type.element == Element::F32 || type.element == Element::BF16);
  };
  compiler.check(
      op, operand_fits(types[0]) && operand_fits(types[1]) && types[0].element == types[1].element,
      "its operands are {}", to_string(types));
  for (const char* name : {"transpose_lhs", "transpose_rhs"}) {
    compiler.check(op,
                   !op.attributes.contains(name) ||
                       compiler.attribute(op, name, Attribute::Kind::BOOL).integer == 0,
                   "{} is not covered", name);
  }
  const Contraction over = contraction_of(compiler, op);
  const bool narrow = is_single_pass(compiler, op);
  const int64_t m = types[0].dims[over.left_first ? 1 : 0];
  const int64_t k = types[0].dims[over.left_first ? 0 : 1];
  const int64_t n = types[1].dims[over.right_first ? 1 : 0];
  compiler.check(op, types[1].dims[over.right_first ? 0 : 1] == k,
                 "{} and {} differ in the dimensions that are summed over", to_string(types[0]),
                 to_string(types[1]));
  compiler.check(op, types[2] == vector_of(Element::F32, {m, n}), "its accumulator is {}",
                 to_string(types[2]));
  compiler.expect_result(op, types[2]);
  return [=, operands = op.operands, y = op.results[0]](Frame& frame) {
    const std::vector<float> a = ordered(frame[operands[0]], over.left_first, narrow);
    const std::vector<float> b = ordered(frame[operands[1]], !over.right_first, narrow);
    Value& out = frame.result(y);
    out.floats = frame[operands[2]].floats;
    multiply_add(a.data(), b.data(), out.floats.data(), m, k, n);
  };
}

}  // namespace

void add_mosaic_vectors(Rules* rules) {
  rules->emplace("vector.broadcast", broadcast);
  rules->emplace("vector.shape_cast", shape_cast);
  rules->emplace("vector.transpose", transpose);
  rules->emplace("tpu.transpose", transpose);
  rules->emplace("vector.extract_strided_slice", slice);
  rules->emplace("vector.multi_reduction", multi_reduction);
  rules->emplace("tpu.matmul", matmul);
  rules->emplace("tpu.concatenate", concatenate);
  rules->emplace("tpu.repeat", repeat);
  rules->emplace("tpu.iota", iota);
  for (const auto& [tpu, arith] :
       {std::pair("tpu.truncf", "arith.truncf"), std::pair("tpu.extf", "arith.extf")}) {
    rules->emplace(tpu, rules->at(arith));
  }
}

}  // namespace kinema::interpreter
