#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kinema/kernels/mlir_text.h"

/// Kernels for TPUs as text: a module of Mosaic, in the generic form that libtpu reads (version 11
/// of its stable dialect, which releases since 2024 accept).
///
/// A kernel is a function for one step of a grid. The compiler pipelines it: it copies the operand
/// blocks of a step into on-chip memory while the previous step computes, and writes a result block
/// back when the next step writes another one.
namespace kinema::kernels::mosaic {

/// A scalar (without a kind), a vector, or a memory reference.
struct Type {
  enum class Kind : uint8_t { SCALAR, VECTOR, VMEM, SMEM };
  Kind kind = Kind::SCALAR;
  std::string element;  // f32, bf16, i32, i1, index
  std::vector<int64_t> dims = {};
  bool operator==(const Type&) const = default;
};
std::string to_string(const Type& type);

using Value = MlirValue<Type>;
using kernels::Compare;
using kernels::Reduce;

/// The body of a function, written operation by operation. Vectors are of f32 unless they are cast;
/// arithmetic needs operands of one type.
class Body : public MlirLines {
 public:
  // ---- Scalars ----
  Value index(int64_t value);
  Value i32(int64_t value);
  Value add(const Value& a, const Value& b);       // of i32
  Value subtract(const Value& a, const Value& b);  // of i32
  Value multiply(const Value& a, const Value& b);  // of i32
  Value as_index(const Value& a);
  Value both(const Value& a, const Value& b);  // of i1
  /// Of scalars or vectors of i32.
  Value compare(Compare how, const Value& a, const Value& b);
  /// An element of a reference to scalars.
  Value load_scalar(const Value& reference, const Value& at);

  // ---- Vectors ----
  /// A vector filled with one value.
  Value full(double value, std::vector<int64_t> dims);
  Value broadcast(const Value& a, std::vector<int64_t> dims);
  Value reshape(const Value& a, std::vector<int64_t> dims);
  /// `addf`, `subf`, `mulf`, `divf`, `maximumf`, ... of the arith dialect, `exp`, `log` of math.
  Value arith(const std::string& op, const Value& a, const Value& b);
  Value math(const std::string& op, const Value& a);
  Value scaled(const Value& a, double factor);
  Value cast(const Value& a, const std::string& element);
  Value select(const Value& condition, const Value& a, const Value& b);
  /// 0, 1, 2, ... along an axis, i32.
  Value iota(std::vector<int64_t> dims, int64_t axis);
  /// Reduces one axis of a matrix, which keeps size 1.
  Value reduce(Reduce how, const Value& a, int64_t axis);
  /// The vector repeated along an axis.
  Value repeat(const Value& a, int64_t times, int64_t axis);
  Value transpose(const Value& a);  // of a matrix
  /// Row 0 of a matrix, [1, n].
  Value first_row(const Value& a);
  /// The sum over axis `of_a` of `a` and axis `of_b` of `b`, f32. Products of f32 are exact f32,
  /// not bf16.
  Value matmul(const Value& a, int64_t of_a, const Value& b, int64_t of_b);

  // ---- Memory ----
  Value load(const Value& reference, const std::vector<Value>& at, std::vector<int64_t> dims);
  void store(const Value& a, const Value& reference, const std::vector<Value>& at);

  // ---- Control ----
  void when(const Value& condition, const std::function<void()>& then,
            const std::function<void()>& otherwise = {});
  /// Emits body(i) for i = 0 ... count - 1, i32.
  void loop(int64_t count, const std::function<void(const Value& i)>& body);

 private:
  Value op(const std::string& name, const std::vector<Value>& operands, const Type& result,
           const std::string& attributes = {});
  Value constant(const std::string& value, const Type& type);
};

/// An operand or result of the call; each step uses one block of it.
struct Window {
  Type block;  // VMEM
  /// The block index along each axis: a grid axis, or -1 for index 0.
  std::vector<int64_t> at;
};

/// The arguments of a body.
struct Arguments {
  std::vector<Value> step;        // the step's grid indices, i32
  std::vector<Value> prefetched;  // scalars in SMEM
  std::vector<Value> windows;     // operands, then results
  std::vector<Value> scratch;
};

/// A function over a grid, whose last axis varies fastest. Steps along a `parallel` axis may be
/// split over the cores of a chip, so scratch must not carry values between them.
struct Function {
  std::string name;
  std::vector<int64_t> grid;
  std::vector<bool> parallel;
  std::vector<Type> prefetched = {};
  std::vector<Window> windows;
  std::vector<Type> scratch = {};
};

/// The module's text.
std::string module_text(const Function& function,
                        const std::function<void(Body& body, const Arguments& arguments)>& write);

}  // namespace kinema::kernels::mosaic
