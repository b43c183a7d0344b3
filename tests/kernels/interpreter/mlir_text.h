#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/interpreter/mlir_types.h"

namespace kinema::interpreter {

struct Block;

/// One operation. Its values are indices into the function's `Function::values`.
struct Operation {
  std::string name;
  int line = 0;
  std::vector<int> operands, results;
  /// Properties `<{..}>` and attributes `{..}` together.
  std::map<std::string, Attribute> attributes;
  /// A region without a block, or with one.
  std::vector<Block> regions;
};

struct Block {
  std::vector<int> arguments;
  std::vector<Operation> operations;
};

/// An operation of the module, and the types of all values in it: `func.func` and `tt.func` see
/// only their own values.
struct Function {
  Operation operation;
  std::vector<Type> values;

  /// Types of an operation's operands or results.
  std::vector<Type> types(const std::vector<int>& of) const;
};

struct Module {
  std::map<std::string, Attribute> attributes;
  std::vector<Function> functions;
};

/// Parses `module { ... }` with operations in MLIR's generic form:
///
///     %3:2 = "name"(%1, %2) <{property = 1 : i32}> ({ ^bb0(%4: f32): ... }) {attribute} : (f32,
///     f32) -> (f32, i32)
///
/// Throws an Error with the line for a text that cannot be parsed, and for a value used before or
/// outside of its definition, defined twice, or used with another type.
Module read_mlir(const std::string& text);

}  // namespace kinema::interpreter
