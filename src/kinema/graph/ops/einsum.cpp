#include <algorithm>
#include <string>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

// One operand with one letter per axis.
struct Lettered {
  Tensor x;
  std::string letters;

  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
  int64_t axis(char letter) const { return static_cast<int64_t>(letters.find(letter)); }
};

struct Spec {
  std::string a, b, out;
};

void check_letters(std::string_view spec, const std::string& letters) {
  for (const char letter : letters) {
    check(letter >= 'a' && letter <= 'z' && std::ranges::count(letters, letter) == 1,
          "[einsum] `{}`: `{}` needs small letters, each once", spec, letters);
  }
}

Spec parse(std::string_view spec) {
  const size_t comma = spec.find(',');
  const size_t arrow = spec.find("->");
  check(comma != std::string_view::npos && arrow != std::string_view::npos && comma < arrow,
        "[einsum] `{}` is not of the form `ab,bc->ac`", spec);
  Spec out{std::string(spec.substr(0, comma)),
           std::string(spec.substr(comma + 1, arrow - comma - 1)),
           std::string(spec.substr(arrow + 2))};
  for (const std::string& letters : {out.a, out.b, out.out}) {
    check_letters(spec, letters);
  }
  for (const char letter : out.out) {
    check(out.a.find(letter) != std::string::npos || out.b.find(letter) != std::string::npos,
          "[einsum] `{}`: the result's `{}` is in neither operand", spec, letter);
  }
  return out;
}

void check_operand(std::string_view spec, const Lettered& operand) {
  check(static_cast<size_t>(operand.x.rank()) == operand.letters.size(),
        "[einsum] `{}`: `{}` has {} letters for {}", spec, operand.letters, operand.letters.size(),
        to_string(operand.x.shape()));
}

// Sums over the letters that neither the other operand nor the result has.
Lettered without_lone_letters(const Lettered& operand, const std::string& other,
                              const std::string& out) {
  std::vector<int64_t> axes;
  std::string kept;
  for (const char letter : operand.letters) {
    if (other.find(letter) == std::string::npos && out.find(letter) == std::string::npos) {
      axes.push_back(operand.axis(letter));
    } else {
      kept += letter;
    }
  }
  return axes.empty() ? operand : Lettered{sum(operand.x, axes), kept};
}

// Letters of the product of `a` and `b` as dot_general orders them, and its axes.
struct Plan {
  DotDims dims;
  std::string letters;
};

Plan plan(const Lettered& a, const Lettered& b, const std::string& out) {
  Plan plan;
  for (const char letter : out) {  // batch letters in the order of the result
    if (a.has(letter) && b.has(letter)) {
      plan.dims.lhs_batch.push_back(a.axis(letter));
      plan.dims.rhs_batch.push_back(b.axis(letter));
      plan.letters += letter;
    }
  }
  for (const char letter : a.letters) {
    if (!b.has(letter)) {
      plan.letters += letter;
    } else if (out.find(letter) == std::string::npos) {
      plan.dims.lhs_contract.push_back(a.axis(letter));
      plan.dims.rhs_contract.push_back(b.axis(letter));
    }
  }
  for (const char letter : b.letters) {
    if (!a.has(letter)) {
      plan.letters += letter;
    }
  }
  return plan;
}

}  // namespace

Tensor einsum(std::string_view spec, Tensor a, Tensor b, Precision precision) {
  const Spec letters = parse(spec);
  Lettered left{a, letters.a};
  Lettered right{b, letters.b};
  check_operand(spec, left);
  check_operand(spec, right);
  for (const char letter : left.letters) {
    check(!right.has(letter) || a.dim(left.axis(letter)) == b.dim(right.axis(letter)),
          "[einsum] `{}`: `{}` is {} in {} but {} in {}", spec, letter, a.dim(left.axis(letter)),
          to_string(a.shape()), b.dim(right.axis(letter)), to_string(b.shape()));
  }
  left = without_lone_letters(left, letters.b, letters.out);
  right = without_lone_letters(right, letters.a, letters.out);
  // Prefers an order that needs no transpose.
  const Plan swapped = plan(right, left, letters.out);
  if (swapped.letters == letters.out && plan(left, right, letters.out).letters != letters.out) {
    return dot_general(right.x, left.x, swapped.dims, precision);
  }
  const Plan straight = plan(left, right, letters.out);
  const Tensor product = dot_general(left.x, right.x, straight.dims, precision);
  std::vector<int64_t> order;
  for (const char letter : letters.out) {
    order.push_back(static_cast<int64_t>(straight.letters.find(letter)));
  }
  return transpose(product, order);
}

}  // namespace kinema
