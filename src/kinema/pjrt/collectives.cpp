#include "kinema/pjrt/collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <string_view>

#include "kinema/pjrt/hlo_program.h"

namespace kinema::pjrt {
namespace {

constexpr std::array<std::string_view, 7> kKinds = {
    "all-reduce",         "all-gather",           "reduce-scatter",   "all-to-all",
    "collective-permute", "collective-broadcast", "ragged-all-to-all"};

/// The kind of a collective, or empty. Of an asynchronous pair the first half is used.
std::string_view kind_of(std::string_view opcode) {
  if (opcode.ends_with("-start")) {
    opcode.remove_suffix(std::string_view("-start").size());
  }
  for (const std::string_view kind : kKinds) {
    if (opcode == kind) {
      return kind;
    }
  }
  return {};
}

/// The transferred value: an asynchronous start returns a tuple of its operands, its result and
/// maybe more; that of an all-reduce returns its result only.
const HloShape& moved(const HloInstruction& instruction) {
  const bool start = instruction.opcode.ends_with("-start");
  return start && instruction.opcode != "all-reduce-start" && instruction.shape.parts.size() >= 2
             ? instruction.shape.parts[1]
             : instruction.shape;
}

std::string shape_text(const HloShape& shape) {
  if (!shape.parts.empty()) {
    std::string parts;
    for (const HloShape& part : shape.parts) {
      parts += (parts.empty() ? "" : ", ") + shape_text(part);
    }
    return "(" + parts + ")";
  }
  return fmt::format("{}[{}]", shape.type, fmt::join(shape.dims, ","));
}

/// `"known_trip_count":{"n":"40"}` of a loop's settings; 1 if it is missing.
int64_t trip_count(const std::string& settings) {
  constexpr std::string_view kKey = "\"known_trip_count\":{\"n\":\"";
  const size_t at = settings.find(kKey);
  int64_t count = 1;
  if (at != std::string::npos) {
    const char* begin = settings.data() + at + kKey.size();
    std::from_chars(begin, settings.data() + settings.size(), count);
  }
  return count;
}

/// Counts the executions of each computation per execution of the program.
void count_runs(const HloModule& module, size_t computation, int64_t times,
                std::vector<int64_t>& runs) {
  runs[computation] += times;
  for (const HloInstruction& one : module.computations[computation].instructions) {
    const int64_t each = one.opcode == "while" ? times * trip_count(one.backend_config) : times;
    for (const size_t called : one.calls) {
      count_runs(module, called, each, runs);
    }
  }
}

}  // namespace

std::vector<Collective> collectives(const OptimizedProgram& program) {
  std::vector<Collective> out;
  if (program.format != "hlo" && program.format != "hlo_with_config") {
    return out;
  }
  const HloModule module = read_hlo(program);
  std::vector<int64_t> runs(module.computations.size());
  count_runs(module, module.entry, 1, runs);
  for (size_t c = 0; c < module.computations.size(); ++c) {
    for (const HloInstruction& one : module.computations[c].instructions) {
      const std::string_view kind = kind_of(one.opcode);
      if (!kind.empty()) {
        out.push_back({.kind = std::string(kind),
                       .shape = shape_text(moved(one)),
                       .bytes = moved(one).bytes(),
                       .times = runs[c],
                       .origin = one.origin,
                       .group = one.members});
      }
    }
  }
  return out;
}

}  // namespace kinema::pjrt
