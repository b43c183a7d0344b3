#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/interpreter/mlir_text.h"
#include "kernels/interpreter/value.h"
#include "kinema/core/error.h"

namespace kinema::interpreter {

/// The values of a running function, and the position in the grid.
struct Frame {
  std::vector<Value> values;
  std::array<int64_t, 3> program{}, programs{1, 1, 1};  // Triton
  int64_t writer = 0;                                   // Triton: the program's number
  int64_t steps = 0;

  Value& operator[](int value) { return values[static_cast<size_t>(value)]; }
  /// The value for writing; memory for its elements is allocated at the first write.
  Value& result(int value);
};

/// One operation, ready to run: it reads and writes values of the frame.
using Step = std::function<void(Frame&)>;

/// A block, ready to run.
struct Steps {
  std::vector<Step> steps;
  /// Operands of its last operation: the results that it returns or yields.
  std::vector<int> results;

  void run(Frame& frame) const;
};

class Compiler;
/// Checks an operation's types and attributes and returns its step; an empty step need not run.
using Rule = std::function<Step(Compiler&, const Operation&)>;
using Rules = std::map<std::string, Rule, std::less<>>;

/// A function of a text, checked and ready to run.
struct Program {
  Steps body;
  std::vector<int> arguments;
  /// All values before a run, with constants filled in.
  Frame frame;
};

/// Compiles a function's operations, whose names are `prefix` + a name in `rules`, to steps.
class Compiler {
 public:
  Compiler(const Function& function, std::string_view prefix, const Rules& rules)
      : function_(function), prefix_(prefix), rules_(rules) {}

  /// `last` is the name of the operation that ends the function.
  Program compile(std::string_view last);

  /// A region's block, whose last operation must be `last`.
  Steps block(const Operation& op, size_t region, std::string_view last);

  const Type& type(int value) const { return function_.values[static_cast<size_t>(value)]; }
  std::vector<Type> types(const std::vector<int>& values) const { return function_.types(values); }
  /// The name without the prefix.
  std::string_view name(const Operation& op) const;
  void set_constant(int value, Value contents);

  /// Throws an Error that names line and operation.
  template <typename... Args>
  void check(const Operation& op, bool ok, fmt::format_string<Args...> format,
             Args&&... args) const {
    if (!ok) [[unlikely]] {
      kinema::fail("[{}] line {}: {}", op.name, op.line,
                   fmt::format(format, std::forward<Args>(args)...));
    }
  }
  void check_counts(const Operation& op, size_t operands, size_t results) const;
  /// The attribute; an error if there is none of this kind.
  const Attribute& attribute(const Operation& op, const std::string& name,
                             Attribute::Kind kind) const;
  int64_t integer(const Operation& op, const std::string& name) const;
  /// `[0, 1]` or `array<i64: 0, 1>`
  Dims integers(const Operation& op, const std::string& name) const;
  /// Checks the result's type.
  void expect_result(const Operation& op, const Type& type, size_t result = 0) const;

 private:
  const Function& function_;
  std::string_view prefix_;
  const Rules& rules_;
  std::vector<std::pair<int, Value>> constants_;
};

/// The integers of a list attribute; throws an Error that mentions `where` if it is something else.
Dims integers_of(const Attribute& attribute, std::string_view where);

/// The position of a step, for errors at run time.
struct Place {
  std::string operation;
  int line = 0;

  explicit Place(const Operation& op) : operation(op.name), line(op.line) {}
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    kinema::fail("[{}] line {}: {}", operation, line,
                 fmt::format(format, std::forward<Args>(args)...));
  }
};

/// arith.*, math.*
void add_arithmetic(Rules* rules);
/// scf.if, scf.for
void add_control(Rules* rules);

}  // namespace kinema::interpreter
