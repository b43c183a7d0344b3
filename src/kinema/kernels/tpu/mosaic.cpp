#include "kinema/kernels/tpu/mosaic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "kinema/core/error.h"

namespace kinema::kernels::mosaic {
namespace {

const Type kIndex{.element = "index"};
const Type kI32{.element = "i32"};
const Type kI1{.element = "i1"};
constexpr const char* kNoOverflowFlags = "overflowFlags = #arith.overflow<none>";
constexpr const char* kNoFastMath = "fastmath = #arith.fastmath<none>";

Type vector(std::vector<int64_t> dims, std::string element) {
  return {.kind = Type::Kind::VECTOR, .element = std::move(element), .dims = std::move(dims)};
}

std::string number(double value) {
  return std::isinf(value) && value < 0 ? "0xFF800000" : fmt::format("{:.9e}", value);
}

}  // namespace

std::string to_string(const Type& type) {
  if (type.kind == Type::Kind::SCALAR) {
    return type.element;
  }
  const std::string inside = fmt::format("{}x{}", fmt::join(type.dims, "x"), type.element);
  if (type.kind == Type::Kind::VECTOR) {
    return fmt::format("vector<{}>", inside);
  }
  return fmt::format("memref<{}, #tpu.memory_space<{}>>", inside,
                     type.kind == Type::Kind::VMEM ? "vmem" : "smem");
}

Value Body::op(const std::string& name, const std::vector<Value>& operands, const Type& result,
               const std::string& attributes) {
  Value out = fresh(result);
  line(fmt::format("{} = \"stable_mosaic.{}\"({}){} : ({}) -> {}", out.name, name, names(operands),
                   attributes.empty() ? "" : " {" + attributes + "}", types(operands),
                   to_string(result)));
  return out;
}

Value Body::constant(const std::string& value, const Type& type) {
  const bool dense = type.kind == Type::Kind::VECTOR;
  return op(
      "arith.constant", {}, type,
      fmt::format("value = {} : {}", dense ? "dense<" + value + ">" : value, to_string(type)));
}

Value Body::index(int64_t value) { return constant(fmt::format("{}", value), kIndex); }
Value Body::i32(int64_t value) { return constant(fmt::format("{}", value), kI32); }

Value Body::add(const Value& a, const Value& b) {
  return op("arith.addi", {a, b}, kI32, kNoOverflowFlags);
}
Value Body::subtract(const Value& a, const Value& b) {
  return op("arith.subi", {a, b}, kI32, kNoOverflowFlags);
}
Value Body::multiply(const Value& a, const Value& b) {
  return op("arith.muli", {a, b}, kI32, kNoOverflowFlags);
}
Value Body::as_index(const Value& a) { return op("arith.index_cast", {a}, kIndex); }
Value Body::both(const Value& a, const Value& b) { return op("arith.andi", {a, b}, kI1); }

Value Body::compare(Compare how, const Value& a, const Value& b) {
  Type result = a.type;
  result.element = "i1";
  return op("arith.cmpi", {a, b}, result,
            fmt::format("predicate = {} : i64", static_cast<int>(how)));
}

Value Body::load_scalar(const Value& reference, const Value& at) {
  return op("memref.load", {reference, at}, {.element = reference.type.element});
}

Value Body::full(double value, std::vector<int64_t> dims) {
  return constant(number(value), vector(std::move(dims), "f32"));
}

Value Body::broadcast(const Value& a, std::vector<int64_t> dims) {
  Type result = vector(std::move(dims), a.type.element);
  return a.type == result ? a : op("vector.broadcast", {a}, result);
}

Value Body::reshape(const Value& a, std::vector<int64_t> dims) {
  return op("vector.shape_cast", {a}, vector(std::move(dims), a.type.element));
}

Value Body::arith(const std::string& name, const Value& a, const Value& b) {
  return op("arith." + name, {a, b}, a.type, kNoFastMath);
}

Value Body::math(const std::string& name, const Value& a) {
  return op("math." + name, {a}, a.type, kNoFastMath);
}

Value Body::scaled(const Value& a, double factor) {
  return factor == 1.0 ? a : arith("mulf", a, full(factor, a.type.dims));
}

Value Body::cast(const Value& a, const std::string& element) {
  if (a.type.element == element) {
    return a;
  }
  return op(element == "bf16" ? "arith.truncf" : "arith.extf", {a}, vector(a.type.dims, element));
}

Value Body::select(const Value& condition, const Value& a, const Value& b) {
  return op("arith.select", {condition, a, b}, a.type);
}

Value Body::iota(std::vector<int64_t> dims, int64_t axis) {
  return op("tpu.iota", {}, vector(std::move(dims), "i32"),
            fmt::format("dimensions = array<i32: {}>", axis));
}

Value Body::reduce(Reduce how, const Value& a, int64_t axis) {
  const int64_t kept = a.type.dims[static_cast<size_t>(1 - axis)];
  const bool max = how == Reduce::MAX;
  const Value start = full(max ? -INFINITY : 0.0, {kept});
  const Value row = op("vector.multi_reduction", {a, start}, vector({kept}, "f32"),
                       fmt::format("kind = #vector.kind<{}>, reduction_dims = array<i64: {}>",
                                   max ? "maximumf" : "add", axis));
  return reshape(row, axis == 0 ? std::vector<int64_t>{1, kept} : std::vector<int64_t>{kept, 1});
}

Value Body::repeat(const Value& a, int64_t times, int64_t axis) {
  if (times == 1) {
    return a;
  }
  std::vector<int64_t> dims = a.type.dims;
  dims[static_cast<size_t>(axis)] *= times;
  return op("tpu.concatenate", std::vector<Value>(static_cast<size_t>(times), a),
            vector(std::move(dims), a.type.element), fmt::format("dimension = {} : i32", axis));
}

Value Body::transpose(const Value& a) {
  return op("tpu.transpose", {a}, vector({a.type.dims[1], a.type.dims[0]}, a.type.element),
            "permutation = array<i64: 1, 0>");
}

Value Body::first_row(const Value& a) {
  const int64_t width = a.type.dims[1];
  return op("vector.extract_strided_slice", {a}, vector({1, width}, a.type.element),
            fmt::format("offsets = [0, 0], sizes = [1, {}], strides = [1, 1]", width));
}

Value Body::matmul(const Value& a, int64_t of_a, const Value& b, int64_t of_b) {
  const int64_t rows = 1 - of_a;
  const int64_t columns = 1 - of_b;
  const Value zero = full(
      0.0, {a.type.dims[static_cast<size_t>(rows)], b.type.dims[static_cast<size_t>(columns)]});
  return op(
      "tpu.matmul", {a, b, zero}, zero.type,
      fmt::format("dimension_numbers = #tpu.dot_dimension_numbers<[{0}], [{1}], [{2}], [{3}], "
                  "[0, {2}, 1, {3}], [], []>, {4}transpose_lhs = false, transpose_rhs = false",
                  of_a, of_b, rows, columns,
                  a.type.element == "f32" ? "precision = #tpu.contract_precision<fp32>, " : ""));
}

Value Body::load(const Value& reference, const std::vector<Value>& at, std::vector<int64_t> dims) {
  std::vector<Value> operands{reference};
  operands.insert(operands.end(), at.begin(), at.end());
  return op("vector.load", operands, vector(std::move(dims), reference.type.element));
}

void Body::store(const Value& a, const Value& reference, const std::vector<Value>& at) {
  std::vector<Value> operands{a, reference};
  operands.insert(operands.end(), at.begin(), at.end());
  line(
      fmt::format("\"stable_mosaic.tpu.vector_store\"({}) {{add = false, operandSegmentSizes = "
                  "array<i32: 1, 1, {}, 0>, strides = array<i32>}} : ({}) -> ()",
                  names(operands), at.size(), types(operands)));
}

void Body::when(const Value& condition, const std::function<void()>& then,
                const std::function<void()>& otherwise) {
  const auto branch = [&](const std::function<void()>& write) {
    ++indent_;
    if (write) {
      write();
    }
    line("\"stable_mosaic.scf.yield\"() : () -> ()");
    --indent_;
  };
  line(fmt::format("\"stable_mosaic.scf.if\"({}) ({{", condition.name));
  branch(then);
  line("}, {");
  branch(otherwise);
  line("}) : (i1) -> ()");
}

void Body::loop(int64_t count, const std::function<void(const Value& i)>& body) {
  const std::vector<Value> bounds{i32(0), i32(count), i32(1)};
  const Value i = fresh(kI32);
  line(fmt::format("\"stable_mosaic.scf.for\"({}) ({{", names(bounds)));
  line(fmt::format("^bb0({}: i32):", i.name));
  ++indent_;
  body(i);
  line("\"stable_mosaic.scf.yield\"() : () -> ()");
  --indent_;
  line("}) : (i32, i32, i32) -> ()");
}

namespace {

Value argument(std::vector<Value>& all, const Type& type) {
  all.push_back({fmt::format("%arg{}", all.size()), type});
  return all.back();
}

std::string type_list(const std::vector<std::string>& types) {
  return fmt::format("{}", fmt::join(types, ", "));
}

/// The function that says which block of a window a step works on.
std::string transform_text(const Window& window, size_t number, const std::vector<Value>& head) {
  std::vector<std::string> results, result_types;
  for (const int64_t axis : window.at) {
    results.push_back(axis < 0 ? "%0" : fmt::format("%arg{}", axis));
    result_types.emplace_back("i32");
  }
  return fmt::format(
      "  \"stable_mosaic.func.func\"() ({{\n"
      "  ^bb0({}):\n"
      "    %0 = \"stable_mosaic.arith.constant\"() {{value = 0 : i32}} : () -> i32\n"
      "    \"stable_mosaic.func.return\"({}) : ({}) -> ()\n"
      "  }}) {{function_type = ({}) -> ({}), sym_name = \"transform_{}\"}} : () -> ()\n",
      with_types(head), type_list(results), type_list(result_types), types(head),
      type_list(result_types), number);
}

}  // namespace

std::string module_text(const Function& function,
                        const std::function<void(Body& body, const Arguments& arguments)>& write) {
  check(function.grid.size() == function.parallel.size(),
        "[kernels] {}: a grid of {} axes of which {} are said to be parallel or not", function.name,
        function.grid.size(), function.parallel.size());
  std::vector<Value> all;
  Arguments arguments;
  for (size_t i = 0; i < function.grid.size(); ++i) {
    arguments.step.push_back(argument(all, kI32));
  }
  for (const Type& each : function.prefetched) {
    arguments.prefetched.push_back(argument(all, each));
  }
  const std::vector<Value> head = all;
  std::vector<std::string> semantics, bounds;
  for (const bool parallel : function.parallel) {
    semantics.push_back(
        fmt::format("#tpu.dimension_semantics<{}>", parallel ? "parallel" : "arbitrary"));
  }
  for (size_t i = 0; i < function.windows.size(); ++i) {
    const Window& window = function.windows[i];
    arguments.windows.push_back(argument(all, window.block));
    bounds.push_back(
        fmt::format("{{transform_indices = @transform_{}, window_bounds = array<i64: "
                    "{}>}}",
                    i, fmt::join(window.block.dims, ", ")));
  }
  for (const Type& each : function.scratch) {
    arguments.scratch.push_back(argument(all, each));
  }
  Body body;
  write(body, arguments);
  std::string out = fmt::format(
      "module attributes {{stable_mosaic.version = 11 : i64}} {{\n"
      "  \"stable_mosaic.func.func\"() ({{\n"
      "  ^bb0({}):\n{}"
      "    \"stable_mosaic.func.return\"() : () -> ()\n"
      "  }}) {{dimension_semantics = [{}], function_type = ({}) -> (), iteration_bounds = "
      "array<i64: {}>, scalar_prefetch = {} : i64, scratch_operands = {} : i64, sym_name = \"{}\", "
      "tpu.core_type = #tpu.core_type<tc>, window_params = [{}]}} : () -> ()\n",
      with_types(all), body.text(), type_list(semantics), types(all),
      fmt::join(function.grid, ", "), function.prefetched.size(), function.scratch.size(),
      function.name, type_list(bounds));
  for (size_t i = 0; i < function.windows.size(); ++i) {
    out += transform_text(function.windows[i], i, head);
  }
  return out + "}\n";
}

}  // namespace kinema::kernels::mosaic
