#include "kernels/interpreter/mlir_text.h"

#include <fmt/ranges.h>

#include "kernels/interpreter/mlir_scanner.h"

namespace kinema::interpreter {
namespace {

constexpr int kMostResults = 1000;

class Reader {
 public:
  explicit Reader(const std::string& text) : scanner_(text) {}

  Module module() {
    Module out;
    const bool generic = scanner_.sees("\"");
    if (generic) {
      const std::string name = scanner_.string();
      if (name != "builtin.module") scanner_.error("a module is expected, not `{}`", name);
      scanner_.expect("(");
      scanner_.expect(")");
      if (scanner_.sees("<{")) scanner_.dictionary(out.attributes, "<{", "}>");
      scanner_.expect("(");
    } else {
      if (!scanner_.take_word("module")) scanner_.error("`module` is expected");
      if (scanner_.take("@")) scanner_.word();
      if (scanner_.take_word("attributes")) scanner_.dictionary(out.attributes);
    }
    scanner_.expect("{");
    if (scanner_.take("^")) {
      scanner_.word();
      scanner_.expect(":");
    }
    while (!scanner_.take("}")) {
      Function function;
      values_ = &function.values;
      names_.clear();
      defined_.clear();
      function.operation = operation();
      out.functions.push_back(std::move(function));
    }
    if (generic) {
      scanner_.expect(")");
      if (scanner_.sees("{")) scanner_.dictionary(out.attributes);
      scanner_.expect(":");
      if (!scanner_.types().empty()) scanner_.error("a module takes nothing");
      scanner_.expect("->");
      if (!scanner_.types().empty()) scanner_.error("a module gives nothing");
    }
    scanner_.skip_location();
    if (!scanner_.at_end()) scanner_.error("something follows the module");
    return out;
  }

 private:
  struct Result {
    std::string name;
    int64_t count = 1;
  };

  void define(const std::string& name, int value) {
    if (!names_.emplace(name, value).second) scanner_.error("%{} is defined twice", name);
    defined_.push_back(name);
  }

  int add(const Type& type) {
    values_->push_back(type);
    return static_cast<int>(values_->size()) - 1;
  }

  /// `%3`, `%3#1`
  int use() {
    std::string name = scanner_.value_name();
    if (scanner_.take("#")) name += fmt::format("#{}", scanner_.integer());
    const auto found = names_.find(name);
    if (found == names_.end()) scanner_.error("%{} is not defined here", name);
    return found->second;
  }

  std::vector<Result> result_names() {
    std::vector<Result> out;
    if (!scanner_.sees("%")) return out;
    do {
      Result result{scanner_.value_name()};
      if (scanner_.take(":")) result.count = scanner_.integer();
      if (result.count < 1 || result.count > kMostResults) scanner_.error("results are miscounted");
      out.push_back(result);
    } while (scanner_.take(","));
    scanner_.expect("=");
    return out;
  }

  Block region() {
    scanner_.expect("{");
    const size_t outer = defined_.size();
    Block block;
    if (scanner_.take("^")) {
      scanner_.word();
      if (scanner_.take("(") && !scanner_.take(")")) {
        do {
          const std::string name = scanner_.value_name();
          scanner_.expect(":");
          block.arguments.push_back(add(scanner_.type()));
          define(name, block.arguments.back());
          scanner_.skip_location();
        } while (scanner_.take(","));
        scanner_.expect(")");
      }
      scanner_.expect(":");
    }
    while (!scanner_.take("}")) {
      if (scanner_.sees("^")) scanner_.error("a region of several blocks is not covered");
      block.operations.push_back(operation());
    }
    while (defined_.size() > outer) {
      names_.erase(defined_.back());
      defined_.pop_back();
    }
    return block;
  }

  Operation operation() {
    const Scanner::Deeper deeper(scanner_);
    const std::vector<Result> results = result_names();
    Operation out;
    if (!scanner_.sees("\"")) scanner_.error("an operation in the generic form is expected");
    out.line = scanner_.line();
    out.name = scanner_.string();
    scanner_.expect("(");
    if (!scanner_.take(")")) {
      do {
        out.operands.push_back(use());
      } while (scanner_.take(","));
      scanner_.expect(")");
    }
    if (scanner_.sees("<{")) scanner_.dictionary(out.attributes, "<{", "}>");
    if (scanner_.take("(")) {
      do {
        out.regions.push_back(region());
      } while (scanner_.take(","));
      scanner_.expect(")");
    }
    if (scanner_.sees("{")) scanner_.dictionary(out.attributes);
    scanner_.expect(":");
    if (!scanner_.sees("(")) scanner_.error("the operands' types are expected in parentheses");
    check_uses(out, scanner_.types());
    scanner_.expect("->");
    define_results(&out, results, scanner_.types());
    scanner_.skip_location();
    return out;
  }

  void check_uses(const Operation& op, const std::vector<Type>& types) const {
    if (types.size() != op.operands.size()) {
      scanner_.error("{}: {} operands and {} types of them", op.name, op.operands.size(),
                     types.size());
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const Type& defined = (*values_)[static_cast<size_t>(op.operands[i])];
      if (types[i] != defined) {
        scanner_.error("{}: operand {} is used as {} but is {}", op.name, i, to_string(types[i]),
                       to_string(defined));
      }
    }
  }

  void define_results(Operation* op, const std::vector<Result>& results,
                      const std::vector<Type>& types) {
    size_t at = 0;
    for (const Result& result : results) {
      for (int64_t i = 0; i < result.count && at < types.size(); ++i, ++at) {
        op->results.push_back(add(types[at]));
        if (i == 0) define(result.name, op->results.back());
        define(fmt::format("{}#{}", result.name, i), op->results.back());
      }
    }
    int64_t named = 0;
    for (const Result& result : results) named += result.count;
    if (!results.empty() && named != static_cast<int64_t>(types.size())) {
      scanner_.error("{}: {} results and {} types of them", op->name, named, types.size());
    }
    for (; at < types.size(); ++at) op->results.push_back(add(types[at]));
  }

  Scanner scanner_;
  std::vector<Type>* values_ = nullptr;
  std::map<std::string, int> names_;
  std::vector<std::string> defined_;  // the names in order of definition
};

}  // namespace

std::vector<Type> Function::types(const std::vector<int>& of) const {
  std::vector<Type> out;
  for (const int value : of) out.push_back(values[static_cast<size_t>(value)]);
  return out;
}

Module read_mlir(const std::string& text) { return Reader(text).module(); }

}  // namespace kinema::interpreter
