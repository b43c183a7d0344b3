#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/kernels/mlir_text.h"

/// Kernels for GPUs as text: a module of Triton IR in MLIR's generic form, as the compiler inside
/// XLA takes it (`__gpu$xla.gpu.triton`).
///
/// A kernel is a function that every program of a grid runs: a block of threads, over which the
/// compiler distributes the elements of tensors. Arrays are pointers, and each element is addressed
/// individually. Tensor sizes are powers of two.
namespace kinema::kernels::triton {

/// A scalar or, with dims, a tensor; of numbers or of pointers to them.
struct Type {
  std::string element;  // f32, bf16, f16, i64, i32, i1
  std::vector<int64_t> dims = {};
  bool pointer = false;
  bool operator==(const Type&) const = default;
};
std::string to_string(const Type& type);

using Value = MlirValue<Type>;
using kernels::Compare;
using kernels::Reduce;

/// The body of a function, written operation by operation. Arithmetic wants operands of one type.
class Body : public MlirLines {
 public:
  // ---- Scalars ----
  /// The program's index along an axis of the grid, i32.
  Value program_id(int64_t axis);
  Value i32(int64_t value);
  Value i64(int64_t value);
  /// An i32 as i64.
  Value widened(const Value& a);

  // ---- Scalars and tensors ----
  /// `addi`, `divsi`, `andi`, `addf`, `subf`, `mulf`, `divf`, `maxnumf`, ... of the arith dialect.
  Value arith(const std::string& op, const Value& a, const Value& b);
  /// `exp2`, `log2`, ... of the math dialect.
  Value math(const std::string& op, const Value& a);
  Value compare(Compare how, const Value& a, const Value& b);  // of i32

  // ---- Tensors ----
  /// 0, 1, ... count - 1, i32.
  Value range(int64_t count);
  /// A floating-point tensor filled with one number.
  Value full(double value, const Type& type);
  /// A scalar broadcast to a tensor.
  Value splat(const Value& a, std::vector<int64_t> dims);
  /// `line`, of one axis, broadcast to a matrix: it runs along `axis` and is constant along the
  /// other.
  Value along(const Value& line, int64_t axis, const std::vector<int64_t>& dims);
  Value transpose(const Value& a);  // of a matrix
  Value scaled(const Value& a, double factor);
  Value cast(const Value& a, const std::string& element);  // between floating-point types
  Value select(const Value& condition, const Value& a, const Value& b);
  /// Reduces one axis of a matrix, which is removed.
  Value reduce(Reduce how, const Value& a, int64_t axis);
  /// a b + sum, f32. Products of f32 are exact f32, not TF32.
  Value dot(const Value& a, const Value& b, const Value& sum);

  // ---- Memory ----
  /// Pointers advanced by a number of elements.
  Value advanced(const Value& pointers, const Value& elements);
  /// Masked elements are not read and become 0.
  Value load(const Value& pointers, const std::optional<Value>& mask = {});
  void store(const Value& pointers, const Value& a, const std::optional<Value>& mask = {});

  // ---- Control ----
  /// carried = body(i, carried) for i = from ... to - 1 (i32); returns the final values. `stages`,
  /// if not 0, overrides the kernel's number of iterations whose loads overlap.
  std::vector<Value> loop(
      const Value& from, const Value& to, const std::vector<Value>& initial,
      const std::function<std::vector<Value>(const Value& i, const std::vector<Value>& carried)>&
          body,
      int64_t stages = 0);

 private:
  Value op(const std::string& name, const std::vector<Value>& operands, const Type& result,
           const std::string& properties = {});
  Value constant(const std::string& value, const Type& type);
};

/// A public function over a grid; its arguments are pointers to each operand, then to each result
/// of the call, all aligned to 16 bytes.
struct Function {
  std::string name;
  std::vector<std::string> arrays;  // their element types: bf16, f32, i32
};

/// The module's text.
std::string module_text(
    const Function& function,
    const std::function<void(Body& body, const std::vector<Value>& arrays)>& write);

}  // namespace kinema::kernels::triton
