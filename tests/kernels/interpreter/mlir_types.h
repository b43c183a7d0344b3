#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/shape.h"

/// Runs the texts of TPU and GPU kernels on the CPU, as a reference in tests.
namespace kinema::interpreter {

using kinema::to_string;

enum class Element : uint8_t { I1, I8, I16, I32, I64, INDEX, F16, BF16, F32 };

bool is_float(Element element);
/// As written in MLIR: `i32`, `index`, `bf16`.
std::string_view to_string(Element element);
/// The element type of arrays of this dtype; throws an Error for dtypes that no kernel uses.
Element element_of(DType dtype);
/// Bits; 64 for INDEX.
int width(Element element);

/// The type of a value in a text.
struct Type {
  enum class Kind : uint8_t { SCALAR, VECTOR, MEMREF, TENSOR };
  Kind kind = Kind::SCALAR;
  Element element = Element::I32;
  /// `!tt.ptr<element>`, or a tensor of such pointers.
  bool pointer = false;
  Dims dims;
  /// Of a memref: `vmem`, `smem`.
  std::string memory_space;

  bool operator==(const Type&) const = default;
  int64_t elements() const;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

std::string to_string(const Type& type);
std::string to_string(const std::vector<Type>& types);

/// The value of `name =` in an operation's dictionaries.
struct Attribute {
  enum class Kind : uint8_t {
    UNIT,        // a name without a value
    BOOL,        // integer
    INTEGER,     // integer, value_type
    FLOAT,       // number, value_type
    STRING,      // text
    SYMBOL,      // text, without @
    ARRAY,       // items: [..] or array<i64: ..>
    DICTIONARY,  // fields
    DENSE,       // items: one for a splat, value_type
    TYPE,        // types[0]
    FUNCTION,    // types -> results
    DIALECT      // `#text<body>`, items: the bracket lists of the body
  };
  Kind kind = Kind::UNIT;
  int64_t integer = 0;
  double number = 0;
  std::string text, body;
  std::vector<Attribute> items;
  std::map<std::string, Attribute> fields;
  Type value_type;
  std::vector<Type> types, results;
};

}  // namespace kinema::interpreter
