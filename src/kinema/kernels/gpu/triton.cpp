#include "kinema/kernels/gpu/triton.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace kinema::kernels::triton {
namespace {

const Type kI32{.element = "i32"};
const Type kI64{.element = "i64"};
/// Triton's enumerator for full f32 products.
constexpr int kIeee = 2;

Type with_element(Type type, std::string element) {
  type.element = std::move(element);
  return type;
}

}  // namespace

std::string to_string(const Type& type) {
  const std::string element =
      type.pointer ? fmt::format("!tt.ptr<{}>", type.element) : type.element;
  return type.dims.empty() ? element
                           : fmt::format("tensor<{}x{}>", fmt::join(type.dims, "x"), element);
}

Value Body::op(const std::string& name, const std::vector<Value>& operands, const Type& result,
               const std::string& properties) {
  Value out = fresh(result);
  line(fmt::format("{} = \"{}\"({}){} : ({}) -> {}", out.name, name, names(operands),
                   properties.empty() ? "" : " <{" + properties + "}>", types(operands),
                   to_string(result)));
  return out;
}

Value Body::constant(const std::string& value, const Type& type) {
  return op("arith.constant", {}, type,
            fmt::format("value = {} : {}", type.dims.empty() ? value : "dense<" + value + ">",
                        to_string(type)));
}

Value Body::program_id(int64_t axis) {
  return op("tt.get_program_id", {}, kI32, fmt::format("axis = {} : i32", axis));
}

Value Body::i32(int64_t value) { return constant(fmt::format("{}", value), kI32); }
Value Body::i64(int64_t value) { return constant(fmt::format("{}", value), kI64); }
Value Body::widened(const Value& a) { return op("arith.extsi", {a}, kI64); }

Value Body::arith(const std::string& name, const Value& a, const Value& b) {
  return op("arith." + name, {a, b}, a.type);
}

Value Body::math(const std::string& name, const Value& a) {
  return op("math." + name, {a}, a.type);
}

Value Body::compare(Compare how, const Value& a, const Value& b) {
  return op("arith.cmpi", {a, b}, with_element(a.type, "i1"),
            fmt::format("predicate = {} : i64", static_cast<int>(how)));
}

Value Body::range(int64_t count) {
  return op("tt.make_range", {}, {.element = "i32", .dims = {count}},
            fmt::format("end = {} : i32, start = 0 : i32", count));
}

Value Body::full(double value, const Type& type) {
  return constant(std::isinf(value) ? "0xFF800000" : fmt::format("{:.9e}", value), type);
}

Value Body::splat(const Value& a, std::vector<int64_t> dims) {
  Type type = a.type;
  type.dims = std::move(dims);
  return op("tt.splat", {a}, type);
}

Value Body::along(const Value& line, int64_t axis, const std::vector<int64_t>& dims) {
  Type thin = line.type;
  thin.dims.insert(axis == 0 ? thin.dims.end() : thin.dims.begin(), 1);
  const Value expanded =
      op("tt.expand_dims", {line}, thin, fmt::format("axis = {} : i32", 1 - axis));
  Type whole = thin;
  whole.dims = dims;
  return op("tt.broadcast", {expanded}, whole);
}

Value Body::transpose(const Value& a) {
  Type type = a.type;
  type.dims = {a.type.dims[1], a.type.dims[0]};
  return op("tt.trans", {a}, type, "order = array<i32: 1, 0>");
}

Value Body::scaled(const Value& a, double factor) {
  return factor == 1.0 ? a : arith("mulf", a, full(factor, a.type));
}

Value Body::cast(const Value& a, const std::string& element) {
  if (a.type.element == element) {
    return a;
  }
  return op(element == "f32" ? "arith.extf" : "arith.truncf", {a}, with_element(a.type, element));
}

Value Body::select(const Value& condition, const Value& a, const Value& b) {
  return op("arith.select", {condition, a, b}, a.type);
}

Value Body::reduce(Reduce how, const Value& a, int64_t axis) {
  Type type = a.type;
  type.dims.erase(type.dims.begin() + axis);
  const Type scalar{.element = a.type.element};
  const Value left = fresh(scalar);
  const Value right = fresh(scalar);
  const Value out = fresh(type);
  line(fmt::format("{} = \"tt.reduce\"({}) <{{axis = {} : i32}}> ({{", out.name, a.name, axis));
  line(fmt::format("^bb0({}):", with_types(std::vector{left, right})));
  ++indent_;
  const Value both = arith(how == Reduce::MAX ? "maxnumf" : "addf", left, right);
  line(fmt::format("\"tt.reduce.return\"({}) : ({}) -> ()", both.name, to_string(scalar)));
  --indent_;
  line(fmt::format("}}) : ({}) -> {}", to_string(a.type), to_string(type)));
  return out;
}

Value Body::dot(const Value& a, const Value& b, const Value& sum) {
  return op("tt.dot", {a, b, sum}, sum.type,
            fmt::format("inputPrecision = {} : i32, maxNumImpreciseAcc = 0 : i32", kIeee));
}

Value Body::advanced(const Value& pointers, const Value& elements) {
  return op("tt.addptr", {pointers, elements}, pointers.type);
}

Value Body::load(const Value& pointers, const std::optional<Value>& mask) {
  Type type = pointers.type;
  type.pointer = false;
  const std::string segments = "operandSegmentSizes = array<i32: ";
  if (!mask) {
    return op("tt.load", {pointers}, type, segments + "1, 0, 0>");
  }
  return op("tt.load", {pointers, *mask, full(0.0, type)}, type, segments + "1, 1, 1>");
}

void Body::store(const Value& pointers, const Value& a, const std::optional<Value>& mask) {
  std::vector<Value> operands{pointers, a};
  if (mask) {
    operands.push_back(*mask);
  }
  line(fmt::format("\"tt.store\"({}) : ({}) -> ()", names(operands), types(operands)));
}

std::vector<Value> Body::loop(
    const Value& from, const Value& to, const std::vector<Value>& initial,
    const std::function<std::vector<Value>(const Value& i, const std::vector<Value>& carried)>&
        body,
    int64_t stages) {
  std::vector<Value> operands{from, to, i32(1)};
  operands.insert(operands.end(), initial.begin(), initial.end());
  const Value i = fresh(kI32);
  std::vector<Value> carried;
  for (const Value& each : initial) {
    carried.push_back(fresh(each.type));
  }
  std::vector<Value> arguments{i};
  arguments.insert(arguments.end(), carried.begin(), carried.end());
  const std::string name = fresh(Type()).name;
  line(fmt::format("{}:{} = \"scf.for\"({}) ({{", name, initial.size(), names(operands)));
  line(fmt::format("^bb0({}):", with_types(arguments)));
  ++indent_;
  const std::vector<Value> next = body(i, carried);
  line(fmt::format("\"scf.yield\"({}) : ({}) -> ()", names(next), types(next)));
  --indent_;
  line(fmt::format("}}){} : ({}) -> ({})",
                   stages == 0 ? "" : fmt::format(" {{tt.num_stages = {} : i32}}", stages),
                   types(operands), types(initial)));
  std::vector<Value> out;
  for (size_t at = 0; at < initial.size(); ++at) {
    out.push_back({fmt::format("{}#{}", name, at), initial[at].type});
  }
  return out;
}

std::string module_text(
    const Function& function,
    const std::function<void(Body& body, const std::vector<Value>& arrays)>& write) {
  std::vector<Value> arrays;
  std::vector<std::string> attributes;
  for (const std::string& element : function.arrays) {
    arrays.push_back({fmt::format("%arg{}", arrays.size()), {.element = element, .pointer = true}});
    attributes.emplace_back("{tt.divisibility = 16 : i32}");
  }
  Body body;
  write(body, arrays);
  return fmt::format(
      "module {{\n"
      "  \"tt.func\"() <{{arg_attrs = [{}], function_type = ({}) -> (), sym_name = \"{}\", "
      "sym_visibility = \"public\"}}> ({{\n"
      "  ^bb0({}):\n{}"
      "    \"tt.return\"() : () -> ()\n"
      "  }}) {{noinline = false}} : () -> ()\n"
      "}}\n",
      fmt::join(attributes, ", "), types(arrays), function.name, with_types(arrays), body.text());
}

}  // namespace kinema::kernels::triton
