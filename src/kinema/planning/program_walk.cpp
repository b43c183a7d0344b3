#include "kinema/planning/program_walk.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace kinema::planning {

using pjrt::HloComputation;
using pjrt::HloInstruction;
using pjrt::HloModule;

namespace {

// The maximum depth of nested computations in a valid module.
constexpr int kDeepest = 64;

constexpr std::array<std::string_view, 6> kCollectives = {
    "all-gather", "all-reduce",         "reduce-scatter",
    "all-to-all", "collective-permute", "ragged-all-to-all"};

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

bool is_condition(const HloComputation& called) {
  return called.instructions[called.root].shape.type == "pred";
}

struct Bound {
  int64_t element = -1;  // of the loop's state
  int64_t limit = 0;
};

/// The condition `state[element] < limit`, directly or inside a fusion.
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

/// n if `instruction` computes `state[element] + n` for this element of the state.
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

void visit(const HloModule& program, size_t index, Place at, const Visitor& visitor, int depth) {
  if (depth > kDeepest) {
    return;
  }
  const HloComputation& here = program.computations[index];
  at.computation = &here;
  for (size_t place = 0; place < here.instructions.size(); ++place) {
    const HloInstruction& one = here.instructions[place];
    at.index = place;
    visitor(at);
    if (one.opcode == "while") {
      const int64_t trips = std::max<int64_t>(trip_count(program, here, place), 1);
      const bool is_counted = known_trip_count(one.backend_config).has_value();
      for (const size_t called : one.calls) {
        if (is_counted && is_condition(program.computations[called])) {
          continue;
        }
        Place inside = at;
        inside.times *= static_cast<double>(trips);
        inside.fused = false;
        visit(program, called, inside, visitor, depth + 1);
      }
    } else if (collective_kind(one.opcode).empty()) {
      // The computations of reductions contain no collectives.
      const bool inlined =
          one.opcode == "call" || one.opcode == "conditional" || one.opcode == "async-start";
      for (const size_t called : one.calls) {
        Place inside = at;
        inside.fused = at.fused || !inlined;
        inside.inside = one.opcode == "async-start" ? &one : at.inside;
        visit(program, called, inside, visitor, depth + 1);
      }
    }
  }
}

}  // namespace

std::string_view collective_kind(std::string_view opcode) {
  for (const std::string_view kind : kCollectives) {
    if (opcode == kind || (opcode.starts_with(kind) && opcode.substr(kind.size()) == "-start")) {
      return kind;
    }
  }
  return {};
}

const HloInstruction* start_of(const Place& collective) {
  const HloInstruction& one = collective.instruction();
  return one.opcode.ends_with("-start") ? &one : collective.inside;
}

const HloInstruction* awaited(const Place& at) {
  const HloInstruction* one = &at.instruction();
  if (!one->opcode.ends_with("-done")) {
    return nullptr;
  }
  do {  // an `-update` passes on a started collective
    if (one->operands.empty()) {
      return nullptr;
    }
    one = &at.computation->instructions[one->operands[0]];
  } while (one->opcode.ends_with("-update"));
  return one;
}

const HloInstruction* behind(const HloComputation& computation, size_t place) {
  const HloInstruction* one = &computation.instructions[place];
  while ((one->opcode == "copy" || one->opcode == "bitcast" || one->opcode == "convert") &&
         !one->operands.empty()) {
    one = &computation.instructions[one->operands[0]];
  }
  return one;
}

int64_t trip_count(const HloModule& program, const HloComputation& computation, size_t place) {
  const HloInstruction& loop = computation.instructions[place];
  if (const auto known = known_trip_count(loop.backend_config)) {
    return *known;
  }
  for (const size_t called : loop.calls) {
    const HloComputation& condition = program.computations[called];
    if (!is_condition(condition)) {
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

void walk(const HloModule& program, const Visitor& visitor) {
  visit(program, program.entry, {.computation = nullptr}, visitor, 0);
}

}  // namespace kinema::planning
