#include "kernels/interpreter/mosaic.h"

#include <algorithm>
#include <optional>
#include <set>

#include "kernels/interpreter/mosaic_operations.h"
#include "kernels/interpreter/strided.h"
#include "kinema/core/error.h"

namespace kinema::interpreter {
namespace {

constexpr std::string_view kPrefix = "stable_mosaic.";
constexpr int64_t kMostGridSteps = 10'000'000;
// Versions of the dialect that have these operations; kinema writes 11.
constexpr int64_t kOldestVersion = 9;
constexpr int64_t kNewestVersion = 11;

const Rules& mosaic_rules() {
  static const Rules rules = [] {
    Rules made;
    add_arithmetic(&made);
    add_control(&made);
    add_mosaic_vectors(&made);
    add_mosaic_memory(&made);
    return made;
  }();
  return rules;
}

/// The part of an operand or result that a grid step uses.
struct Window {
  std::string name;
  Program transform;
  Dims block;
  bool is_result = false;
  Memory array, part;
  std::optional<Dims> at;  // block index of `part`
  std::set<Dims> written;  // block indices of a result that have been started
};

class Kernel {
 public:
  Kernel(const Module& module, std::span<const Array> operands, std::span<const Shape> results)
      : module_(module), main_(find_main()), compiler_(main_, kPrefix, mosaic_rules()) {
    check_version();
    read_grid();
    read_arguments(operands, results);
    body_ = compiler_.compile("func.return");
    error_unless(body_.body.results.empty(), "it returns something");
  }

  std::vector<Array> run(std::span<const Shape> results) {
    give_memory();
    Dims index(grid_.size(), 0);
    do {
      step(index);
    } while (advance(&index));
    std::vector<Array> out;
    for (Window& window : windows_) {
      if (!window.is_result) continue;
      flush(&window);
      out.push_back(to_array(window.array.contents, results[out.size()].dtype));
    }
    return out;
  }

 private:
  template <typename... Args>
  void error_unless(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    compiler_.check(main_.operation, ok, format, std::forward<Args>(args)...);
  }

  const Attribute& attribute(const char* name, Attribute::Kind kind) const {
    return compiler_.attribute(main_.operation, name, kind);
  }

  const Function& find_main() const {
    const Function* found = nullptr;
    for (const Function& function : module_.functions) {
      check(function.operation.name == "stable_mosaic.func.func",
            "[mosaic] line {}: `{}` is not a stable_mosaic.func.func", function.operation.line,
            function.operation.name);
      const auto& attributes = function.operation.attributes;
      if (attributes.contains("tpu.core_type") || attributes.contains("iteration_bounds")) {
        check(found == nullptr, "[mosaic] two functions have a grid");
        found = &function;
      }
    }
    check(found != nullptr, "[mosaic] no function with tpu.core_type = tc");
    return *found;
  }

  void check_version() const {
    const auto found = module_.attributes.find("stable_mosaic.version");
    check(found != module_.attributes.end() && found->second.kind == Attribute::Kind::INTEGER,
          "[mosaic] the module's attribute stable_mosaic.version is missing");
    const int64_t version = found->second.integer;
    check(version >= kOldestVersion && version <= kNewestVersion,
          "[mosaic] stable_mosaic.version {} is not covered", version);
  }

  /// The function type must repeat the block's arguments.
  static void check_function_type(const Compiler& compiler, const Operation& op,
                                  const std::vector<Type>& results) {
    compiler.attribute(op, "sym_name", Attribute::Kind::STRING);
    const Attribute& type = compiler.attribute(op, "function_type", Attribute::Kind::FUNCTION);
    compiler.check(op, op.regions.size() == 1, "one region is expected");
    const std::vector<Type> arguments = compiler.types(op.regions[0].arguments);
    compiler.check(op, type.types == arguments && type.results == results,
                   "function_type is {} -> {}, {} -> {} expected", to_string(type.types),
                   to_string(type.results), to_string(arguments), to_string(results));
  }

  void read_grid() {
    const Operation& op = main_.operation;
    check_function_type(compiler_, op, {});
    const Attribute& core = attribute("tpu.core_type", Attribute::Kind::DIALECT);
    error_unless(core.text == "tpu.core_type" && core.body == "tc", "tpu.core_type is {}<{}>",
                 core.text, core.body);
    grid_ = compiler_.integers(op, "iteration_bounds");
    int64_t steps = 1;
    for (const int64_t size : grid_) {
      error_unless(size > 0 && size <= kMostGridSteps, "iteration_bounds {}", to_string(grid_));
      steps *= size;
      error_unless(steps <= kMostGridSteps, "iteration_bounds {}", to_string(grid_));
    }
    for (const Attribute& each : attribute("dimension_semantics", Attribute::Kind::ARRAY).items) {
      error_unless(each.text == "tpu.dimension_semantics" &&
                       (each.body == "parallel" || each.body == "arbitrary"),
                   "dimension_semantics {}<{}>", each.text, each.body);
      is_parallel_.push_back(each.body == "parallel");
    }
    error_unless(is_parallel_.size() == grid_.size(), "{} dimension_semantics for a grid of {}",
                 is_parallel_.size(), to_string(grid_));
  }

  void read_arguments(std::span<const Array> operands, std::span<const Shape> results) {
    const Operation& op = main_.operation;
    const int64_t prefetched = compiler_.integer(op, "scalar_prefetch");
    const int64_t scratch = compiler_.integer(op, "scratch_operands");
    const std::vector<Attribute>& windows =
        attribute("window_params", Attribute::Kind::ARRAY).items;
    const std::vector<Type> types = compiler_.types(op.regions[0].arguments);
    error_unless(prefetched >= 0 && scratch >= 0 &&
                     static_cast<size_t>(prefetched) <= operands.size() &&
                     static_cast<size_t>(scratch) <= types.size(),
                 "scalar_prefetch {} and scratch_operands {}", prefetched, scratch);
    const size_t first = grid_.size() + static_cast<size_t>(prefetched);  // window
    error_unless(
        operands.size() + results.size() == static_cast<size_t>(prefetched) + windows.size(),
        "{} operands and {} results for {} prefetched and {} windows", operands.size(),
        results.size(), prefetched, windows.size());
    error_unless(types.size() == first + windows.size() + static_cast<size_t>(scratch),
                 "{} arguments for a grid of {}, {} prefetched, {} windows and {} scratch",
                 types.size(), grid_.size(), prefetched, windows.size(), scratch);
    for (size_t i = 0; i < grid_.size(); ++i) {
      error_unless(types[i] == Type{.element = Element::I32}, "grid index {} is {}", i,
                   to_string(types[i]));
    }
    head_.assign(types.begin(), types.begin() + static_cast<int64_t>(first));
    for (size_t i = 0; i < static_cast<size_t>(prefetched); ++i) {
      prefetched_.push_back(
          {from_array(operands[i]), fmt::format("prefetched operand {}", i), true});
      Type expected = prefetched_[i].contents.type;
      expected.memory_space = "smem";
      error_unless(types[grid_.size() + i] == expected,
                   "prefetched operand {} is {} but taken as {}", i, to_string(operands[i].shape),
                   to_string(types[grid_.size() + i]));
    }
    for (size_t i = 0; i < windows.size(); ++i) {
      const size_t operand = static_cast<size_t>(prefetched) + i;
      const bool is_result = operand >= operands.size();
      add_window(windows[i], types[first + i], is_result ? nullptr : &operands[operand],
                 is_result ? results[operand - operands.size()] : operands[operand].shape);
    }
    for (size_t i = first + windows.size(); i < types.size(); ++i) {
      error_unless(types[i].kind == Type::Kind::MEMREF, "scratch is {}", to_string(types[i]));
      scratch_.push_back({Value(types[i]), fmt::format("scratch {}", scratch_.size())});
    }
  }

  void add_window(const Attribute& params, const Type& type, const Array* operand,
                  const Shape& shape) {
    Window window;
    window.is_result = operand == nullptr;
    window.name = fmt::format("window {}", windows_.size());
    error_unless(params.kind == Attribute::Kind::DICTIONARY &&
                     params.fields.contains("transform_indices") &&
                     params.fields.contains("window_bounds"),
                 "{} has no transform_indices or window_bounds", window.name);
    window.block = integers_of(params.fields.at("window_bounds"), "window_bounds");
    Type expected{.kind = Type::Kind::MEMREF,
                  .element = element_of(shape.dtype),
                  .dims = window.block,
                  .memory_space = "vmem"};
    error_unless(type == expected && type.rank() == shape.rank() &&
                     std::find(type.dims.begin(), type.dims.end(), 0) == type.dims.end(),
                 "{}: blocks {} of {} are taken as {}", window.name, to_string(window.block),
                 to_string(shape), to_string(type));
    window.part = {Value(type), window.name, !window.is_result};
    if (operand != nullptr) {
      window.array.contents = from_array(*operand);
    } else {
      Type whole = type;
      whole.dims = shape.dims;
      window.array.contents = Value(whole);
      spoil(&window.array.contents);
    }
    const Attribute& transform = params.fields.at("transform_indices");
    error_unless(transform.kind == Attribute::Kind::SYMBOL, "{}: transform_indices", window.name);
    window.transform = compile_transform(transform.text, window.block.size());
    windows_.push_back(std::move(window));
  }

  Program compile_transform(const std::string& name, size_t rank) const {
    for (const Function& function : module_.functions) {
      const auto found = function.operation.attributes.find("sym_name");
      if (found == function.operation.attributes.end() || found->second.text != name) continue;
      Compiler compiler(function, kPrefix, mosaic_rules());
      const Operation& op = function.operation;
      check_function_type(compiler, op, std::vector<Type>(rank, Type{.element = Element::I32}));
      compiler.check(op, compiler.types(op.regions[0].arguments) == head_,
                     "it takes {}, {} expected", to_string(compiler.types(op.regions[0].arguments)),
                     to_string(head_));
      Program out = compiler.compile("func.return");
      compiler.check(op,
                     compiler.types(out.body.results) ==
                         std::vector<Type>(rank, Type{.element = Element::I32}),
                     "it returns {}", to_string(compiler.types(out.body.results)));
      return out;
    }
    fail("[mosaic] there is no function @{}", name);
  }

  void give_memory() {
    size_t at = grid_.size();
    for (Memory& each : prefetched_) {
      for (Window& window : windows_) {
        window.transform.frame[window.transform.arguments[at]].memory = &each;
      }
      body_.frame[body_.arguments[at++]].memory = &each;
    }
    for (Window& window : windows_) body_.frame[body_.arguments[at++]].memory = &window.part;
    for (Memory& each : scratch_) body_.frame[body_.arguments[at++]].memory = &each;
  }

  void step(const Dims& index) {
    Dims parallel;
    for (size_t i = 0; i < index.size(); ++i) {
      if (is_parallel_[i]) parallel.push_back(index[i]);
    }
    // Another core may run this step, which finds nothing left from earlier ones.
    const bool elsewhere = parallel_ != parallel;
    if (elsewhere) {
      for (Memory& each : scratch_) spoil(&each.contents);
      parallel_ = parallel;
    }
    for (Window& window : windows_) move(&window, index, elsewhere);
    set_index(&body_, index);
    body_.body.run(body_.frame);
  }

  static void set_index(Program* program, const Dims& index) {
    for (size_t i = 0; i < index.size(); ++i) {
      program->frame.result(program->arguments[i]).integers[0] = index[i];
    }
  }

  void move(Window* window, const Dims& index, bool elsewhere) {
    set_index(&window->transform, index);
    window->transform.body.run(window->transform.frame);
    Dims at;
    for (const int result : window->transform.body.results) {
      at.push_back(window->transform.frame[result].integer());
    }
    if (!elsewhere && window->at == at) return;
    flush(window);
    window->at = at;
    spoil(&window->part.contents);
    if (!window->is_result) {
      copy(window, Direction::IN);
      return;
    }
    sizes_at(*window, at);
    check(window->written.insert(at).second, "[mosaic] {}: block {} is written a second time",
          window->name, to_string(at));
  }

  enum class Direction : uint8_t { IN, OUT };

  /// The sizes of the block's part inside the array.
  static Dims sizes_at(const Window& window, const Dims& at) {
    const Dims& dims = window.array.contents.type.dims;
    Dims sizes;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t start = at[i] * window.block[i];  // 32 bits times 25
      check(start >= 0 && start < dims[i], "[mosaic] {}: block {} of {} is beyond {}", window.name,
            to_string(at), to_string(window.block), to_string(dims));
      sizes.push_back(std::min(window.block[i], dims[i] - start));
    }
    return sizes;
  }

  static void copy(Window* window, Direction direction) {
    const Dims sizes = sizes_at(*window, *window->at);
    Dims start;
    for (size_t i = 0; i < sizes.size(); ++i) start.push_back((*window->at)[i] * window->block[i]);
    const Walk whole = walk_from(window->array.contents.type.dims, start);
    const Walk part{.strides = strides_of(window->block)};
    if (direction == Direction::IN) {
      copy_strided(window->array.contents, whole, &window->part.contents, part, sizes);
    } else {
      copy_strided(window->part.contents, part, &window->array.contents, whole, sizes);
    }
  }

  static void flush(Window* window) {
    if (window->is_result && window->at) copy(window, Direction::OUT);
  }

  bool advance(Dims* index) const {
    for (size_t i = grid_.size(); i > 0; --i) {
      if (++(*index)[i - 1] < grid_[i - 1]) return true;
      (*index)[i - 1] = 0;
    }
    return false;
  }

  const Module& module_;
  const Function& main_;
  Compiler compiler_;
  Dims grid_;
  std::vector<bool> is_parallel_;
  std::vector<Type> head_;  // grid indices and prefetched memrefs
  std::vector<Memory> prefetched_, scratch_;
  std::vector<Window> windows_;
  Program body_;
  std::optional<Dims> parallel_;
};

}  // namespace

std::vector<Array> run_mosaic(const std::string& text, std::span<const Array> operands,
                              std::span<const Shape> results) {
  const Module module = read_mlir(text);
  return Kernel(module, operands, results).run(results);
}

}  // namespace kinema::interpreter
