#include "kinema/planning/traffic.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace kinema::planning {
namespace {

using pjrt::HloComputation;
using pjrt::HloInstruction;
using pjrt::HloModule;
using pjrt::HloShape;

// The compiler's number for memory of the host, on TPU and GPU alike.
constexpr int64_t kHostSpace = 5;

// Computations in computations, beyond which a module is taken to be broken.
constexpr int kDeepest = 64;

constexpr std::array<std::string_view, 6> kCollectives = {
    "all-gather", "all-reduce",         "reduce-scatter",
    "all-to-all", "collective-permute", "ragged-all-to-all"};

/// The kind of a collective, `all-gather` for `all-gather-start` too; empty for others.
std::string_view collective_kind(std::string_view opcode) {
  for (const std::string_view kind : kCollectives) {
    if (opcode == kind || (opcode.starts_with(kind) && opcode.substr(kind.size()) == "-start")) {
      return kind;
    }
  }
  return {};
}

bool moves_nothing(std::string_view opcode) {
  static const std::set<std::string_view> all = {
      "parameter",    "tuple",      "get-tuple-element", "bitcast",     "constant",
      "while",        "call",       "conditional",       "after-all",   "opt-barrier",
      "partition-id", "replica-id", "add-dependency",    "async-start", "async-update",
      "async-done"};
  return all.contains(opcode) || opcode.ends_with("-done");
}

/// An instruction looked up through tuples and copies.
const HloInstruction* behind(const HloComputation& computation, size_t place) {
  const HloInstruction* one = &computation.instructions[place];
  while ((one->opcode == "copy" || one->opcode == "bitcast" || one->opcode == "convert") &&
         !one->operands.empty()) {
    one = &computation.instructions[one->operands[0]];
  }
  return one;
}

std::optional<int64_t> known_trip_count(const std::string& backend_config) {
  const size_t at = backend_config.find("known_trip_count");
  if (at == std::string::npos) {
    return std::nullopt;
  }
  const size_t digit = backend_config.find_first_of("0123456789", at);
  int64_t count = 0;
  if (digit == std::string::npos ||
      std::from_chars(backend_config.data() + digit, backend_config.data() + backend_config.size(),
                      count)
              .ec != std::errc()) {
    return std::nullopt;
  }
  return count;
}

struct Bound {
  int64_t element = -1;  // of the loop's state
  int64_t limit = 0;
};

/// `state[element] < limit` as the condition says it, directly or inside a fusion.
std::optional<Bound> loop_bound(const HloModule& program, const HloComputation& condition) {
  const HloInstruction* root = behind(condition, condition.root);
  std::vector<const HloInstruction*> given;
  for (const size_t operand : root->operands) {
    given.push_back(behind(condition, operand));
  }
  const HloInstruction* compare = root;
  if (root->opcode == "fusion" && root->calls.size() == 1) {
    const HloComputation& inside = program.computations[root->calls[0]];
    compare = behind(inside, inside.root);
    std::vector<const HloInstruction*> traced;
    for (const size_t operand : compare->operands) {
      const HloInstruction* one = behind(inside, operand);
      const bool is_argument =
          one->opcode == "parameter" && static_cast<size_t>(one->number) < given.size();
      traced.push_back(is_argument ? given[static_cast<size_t>(one->number)] : one);
    }
    given = traced;
  }
  if (compare->opcode != "compare" || given.size() != 2) {
    return std::nullopt;
  }
  const bool forward = compare->direction == "LT" && given[1]->value.has_value();
  const bool backward = compare->direction == "GT" && given[0]->value.has_value();
  if (!forward && !backward) {
    return std::nullopt;
  }
  const HloInstruction* state = given[forward ? 0 : 1];
  if (state->opcode != "get-tuple-element") {
    return std::nullopt;
  }
  return Bound{.element = state->number, .limit = *given[forward ? 1 : 0]->value};
}

/// What `instruction` adds to element `element` of the state, when it is `state[element] + n`.
std::optional<int64_t> step_of(const HloModule& program, const HloComputation& body,
                               int64_t element) {
  const HloInstruction* root = behind(body, body.root);
  if (root->opcode != "tuple" || static_cast<size_t>(element) >= root->operands.size()) {
    return std::nullopt;
  }
  const HloInstruction* next = behind(body, root->operands[static_cast<size_t>(element)]);
  const HloComputation* where = &body;
  if (next->opcode == "fusion" && next->calls.size() == 1) {
    where = &program.computations[next->calls[0]];
    next = behind(*where, where->root);
  }
  if (next->opcode != "add" || next->operands.size() != 2) {
    return std::nullopt;
  }
  for (const size_t operand : next->operands) {
    if (const auto value = behind(*where, operand)->value; value.has_value() && *value > 0) {
      return value;
    }
  }
  return std::nullopt;
}

int64_t start_of(const HloComputation& computation, const HloInstruction& loop, int64_t element) {
  if (loop.operands.size() != 1) {
    return 0;
  }
  const HloInstruction* state = behind(computation, loop.operands[0]);
  if (state->opcode != "tuple" || static_cast<size_t>(element) >= state->operands.size()) {
    return 0;
  }
  return behind(computation, state->operands[static_cast<size_t>(element)])->value.value_or(0);
}

/// Bytes that a fusion reads of its parameter `number`: the slices, where only slices are taken, in
/// it or in the fusions inside it.
double parameter_bytes(const HloModule& program, const HloComputation& inside, int64_t number,
                       const HloShape& whole, int depth = 0) {
  std::vector<size_t> same;  // places that stand for the parameter
  for (size_t i = 0; i < inside.instructions.size(); ++i) {
    const HloInstruction& one = inside.instructions[i];
    const bool through = one.opcode == "bitcast" && !one.operands.empty() &&
                         std::ranges::find(same, one.operands[0]) != same.end();
    if ((one.opcode == "parameter" && one.number == number) || through) {
      same.push_back(i);
    }
  }
  const auto all = static_cast<double>(whole.device_bytes());
  double sliced = 0;
  for (const HloInstruction& one : inside.instructions) {
    for (size_t i = 0; i < one.operands.size(); ++i) {
      if (std::ranges::find(same, one.operands[i]) == same.end() || one.opcode == "bitcast") {
        continue;
      }
      if (i == 0 && (one.opcode == "dynamic-slice" || one.opcode == "slice")) {
        sliced += static_cast<double>(one.shape.bytes());
      } else if (i == 0 && one.opcode == "dynamic-update-slice") {
        continue;  // written in place
      } else if (one.opcode == "fusion" && one.calls.size() == 1 && depth < kDeepest) {
        sliced += parameter_bytes(program, program.computations[one.calls[0]],
                                  static_cast<int64_t>(i), whole, depth + 1);
      } else {
        return all;
      }
    }
  }
  return std::min(sliced, all);
}

/// What of a shape lies in host memory.
double bytes_on_host(const HloShape& shape) {
  if (shape.parts.empty()) {
    return shape.memory_space == kHostSpace ? static_cast<double>(shape.bytes()) : 0.0;
  }
  double sum = 0;
  for (const HloShape& part : shape.parts) {
    sum += bytes_on_host(part);
  }
  return sum;
}

bool on_host(const HloShape& shape) { return bytes_on_host(shape) > 0; }

/// Bytes that an instruction writes of `shape`, its own or that of the fusion whose root it is: the
/// update, where it writes in place.
double result_bytes(const HloModule& program, const HloComputation& where,
                    const HloInstruction& one, const HloShape& shape, int depth = 0) {
  if (one.opcode == "tuple" && one.operands.size() == shape.parts.size()) {
    double sum = 0;
    for (size_t i = 0; i < shape.parts.size(); ++i) {
      sum += result_bytes(program, where, *behind(where, one.operands[i]), shape.parts[i], depth);
    }
    return sum;
  }
  if (one.opcode == "fusion" && one.calls.size() == 1 && depth < kDeepest) {
    const HloComputation& inside = program.computations[one.calls[0]];
    return result_bytes(program, inside, *behind(inside, inside.root), shape, depth + 1);
  }
  if (one.opcode == "dynamic-update-slice" && one.operands.size() > 1 &&
      (shape.device_bytes() > 0 || on_host(shape))) {
    return static_cast<double>(where.instructions[one.operands[1]].shape.bytes());
  }
  return static_cast<double>(shape.device_bytes());
}

class Walk {
 public:
  explicit Walk(const HloModule& program) : program_(program) {}

  Traffic run() {
    computation(program_.entry, 1.0, /*fused=*/false, 0);
    return std::move(sum_);
  }

 private:
  void computation(size_t index, double times, bool fused, int depth) {
    if (depth > kDeepest) {
      return;
    }
    const HloComputation& here = program_.computations[index];
    for (size_t place = 0; place < here.instructions.size(); ++place) {
      const HloInstruction& one = here.instructions[place];
      if (const std::string_view kind = collective_kind(one.opcode); !kind.empty()) {
        collective(here, one, std::string(kind), times);
      }
      if (!fused && !moves_nothing(one.opcode)) {
        memory(here, one, times);
      }
      if (one.opcode == "while") {
        loop(here, place, times, depth);
      } else if (collective_kind(one.opcode).empty()) {
        // The sums inside reductions hold no collective, and are left by depth of the fusion.
        for (const size_t called : one.calls) {
          const bool inlined =
              one.opcode == "call" || one.opcode == "conditional" || one.opcode == "async-start";
          computation(called, times, fused || !inlined, depth + 1);
        }
      }
    }
  }

  void loop(const HloComputation& here, size_t place, double times, int depth) {
    const int64_t trips = trip_count(program_, here, place);
    if (trips == 0) {
      ++sum_.unknown_loops;
    }
    for (const size_t called : here.instructions[place].calls) {
      computation(called, times * static_cast<double>(std::max<int64_t>(trips, 1)), false,
                  depth + 1);
    }
  }

  void collective(const HloComputation& here, const HloInstruction& one, const std::string& kind,
                  double times) {
    double given = 0;
    for (const size_t operand : one.operands) {
      given += static_cast<double>(here.instructions[operand].shape.bytes());
    }
    const double n = static_cast<double>(std::max<int64_t>(one.group, 1));
    const double around = one.group > 0 ? (n - 1) / n : 1.0;
    CollectiveSum& sum = sum_.collectives[kind];
    sum.count += times;
    double bytes = given;
    double link = given * around;
    if (kind == "all-gather") {
      bytes = given * n;
      link = bytes * around;
    } else if (kind == "all-reduce") {
      link = 2 * given * around;
    } else if (kind == "collective-permute") {
      link = given;
    }
    sum.bytes += times * bytes;
    sum.interconnect_bytes += times * link;
  }

  void memory(const HloComputation& here, const HloInstruction& one, double times) {
    if (one.opcode == "copy" || one.opcode == "copy-start" || one.opcode == "fusion") {
      const bool to = on_host(one.shape);
      const bool from = std::ranges::any_of(
          one.operands, [&](size_t i) { return on_host(here.instructions[i].shape); });
      if (to || from) {
        sum_.host_bytes += times * host_bytes(here, one, from);
      }
    }
    double bytes = 0;
    if (one.opcode == "copy-start") {  // its result holds source and destination
      bytes = static_cast<double>(one.shape.device_bytes());
    } else if (one.opcode == "dynamic-slice") {
      bytes = 2 * static_cast<double>(one.shape.device_bytes());
    } else {
      bytes = result_bytes(program_, here, one, one.shape);
      for (size_t i = 0; i < one.operands.size(); ++i) {
        const HloShape& shape = here.instructions[one.operands[i]].shape;
        if (one.opcode == "dynamic-update-slice" && i != 1) {
          continue;
        }
        bytes += one.opcode == "fusion" && one.calls.size() == 1
                     ? parameter_bytes(program_, program_.computations[one.calls[0]],
                                       static_cast<int64_t>(i), shape)
                     : static_cast<double>(shape.device_bytes());
      }
    }
    sum_.hbm_bytes += times * bytes;
  }

  double host_bytes(const HloComputation& here, const HloInstruction& one, bool from) const {
    if (!from) {
      const double update = result_bytes(program_, here, one, one.shape);
      return update > 0 && one.opcode == "fusion" ? update : bytes_on_host(one.shape);
    }
    double bytes = 0;
    for (size_t i = 0; i < one.operands.size(); ++i) {
      const HloShape& shape = here.instructions[one.operands[i]].shape;
      if (!on_host(shape)) {
        continue;
      }
      HloShape as_device = shape;
      as_device.memory_space = 0;
      bytes += one.opcode == "fusion" && one.calls.size() == 1
                   ? parameter_bytes(program_, program_.computations[one.calls[0]],
                                     static_cast<int64_t>(i), as_device)
                   : static_cast<double>(shape.bytes());
    }
    return bytes > 0 ? bytes : static_cast<double>(one.shape.bytes());
  }

  const HloModule& program_;
  Traffic sum_;
};

}  // namespace

int64_t trip_count(const HloModule& program, const HloComputation& computation, size_t place) {
  const HloInstruction& loop = computation.instructions[place];
  if (const auto known = known_trip_count(loop.backend_config)) {
    return *known;
  }
  for (const size_t called : loop.calls) {
    const HloComputation& condition = program.computations[called];
    if (condition.instructions[condition.root].shape.type != "pred") {
      continue;
    }
    const auto bound = loop_bound(program, condition);
    if (!bound) {
      return 0;
    }
    int64_t step = 1;
    for (const size_t other : loop.calls) {
      if (other != called) {
        step = step_of(program, program.computations[other], bound->element).value_or(1);
      }
    }
    const int64_t room = bound->limit - start_of(computation, loop, bound->element);
    return std::max<int64_t>(0, (room + step - 1) / step);
  }
  return 0;
}

Traffic traffic(const HloModule& program) { return Walk(program).run(); }

}  // namespace kinema::planning
