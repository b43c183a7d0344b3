#include "kinema/planning/traffic.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <vector>

namespace kinema::planning {
namespace {

using pjrt::HloComputation;
using pjrt::HloInstruction;
using pjrt::HloModule;
using pjrt::HloShape;

// The compiler's memory space of host memory, on TPU and GPU.
constexpr int64_t kHostSpace = 5;

// The maximum depth of nested computations in a valid module.
constexpr int kDeepest = 64;

bool moves_nothing(std::string_view opcode) {
  static const std::set<std::string_view> all = {
      "parameter",    "tuple",      "get-tuple-element", "bitcast",     "constant",
      "while",        "call",       "conditional",       "after-all",   "opt-barrier",
      "partition-id", "replica-id", "add-dependency",    "async-start", "async-update",
      "async-done"};
  return all.contains(opcode) || opcode.ends_with("-done");
}

/// Bytes of parameter `number` that a fusion reads: only the slices, if it or a nested fusion takes
/// only slices.
double parameter_bytes(const HloModule& program, const HloComputation& inside, int64_t number,
                       const HloShape& whole, int depth = 0) {
  std::vector<size_t> same;  // indices of aliases of the parameter
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

/// The bytes of a shape that are in host memory.
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

/// The workspace in the result of a cuBLAS call, its last element. It is the same 4 or 32 MiB for
/// each product, and few products use it (to add partial sums of cores).
int64_t workspace_bytes(const HloComputation& where, const HloInstruction& one) {
  const bool is_part = one.opcode == "get-tuple-element" && !one.operands.empty();
  const HloInstruction& call = is_part ? where.instructions[one.operands[0]] : one;
  const std::vector<HloShape>& parts = call.shape.parts;
  if (!call.target.starts_with("__cublas$") || parts.empty() || parts.back().type != "s8" ||
      (is_part && static_cast<size_t>(one.number) + 1 != parts.size())) {
    return 0;
  }
  return parts.back().device_bytes();
}

/// Bytes of `shape` that an instruction writes, itself or as the root of a fusion: only the update,
/// if it writes in place.
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
  return static_cast<double>(shape.device_bytes() - workspace_bytes(where, one));
}

/// `"bytes_accessed": 123` of a TPU kernel's configuration; 0 if it is missing.
double said_bytes(const HloInstruction& one) {
  constexpr std::string_view kKey = "\"bytes_accessed\":";
  const size_t at =
      one.target == "tpu_custom_call" ? one.backend_config.find(kKey) : std::string::npos;
  if (at == std::string::npos) {
    return 0;
  }
  const size_t digit = one.backend_config.find_first_of("0123456789", at + kKey.size());
  int64_t value = 0;
  if (digit != std::string::npos) {
    std::from_chars(one.backend_config.data() + digit,
                    one.backend_config.data() + one.backend_config.size(), value);
  }
  return static_cast<double>(value);
}

/// The workspace of cuDNN's attention, its last result: not written in the forward pass; in the
/// backward pass dq is accumulated there and read at the end.
double working_bytes(const HloInstruction& one) {
  if (!one.target.starts_with("__cudnn$fmha") || one.shape.parts.empty()) {
    return 0;
  }
  const auto bytes = static_cast<double>(one.shape.parts.back().device_bytes());
  return one.target.find("Backward") == std::string::npos ? -bytes : bytes;
}

class Sum {
 public:
  explicit Sum(const HloModule& program) : program_(program) {}

  void add(const Place& at) {
    const HloInstruction& one = at.instruction();
    if (!collective_kind(one.opcode).empty()) {
      add_collective(at);
    }
    const HostMove move = host_move(program_, at);
    sum_.host_bytes += at.times * move.bytes;
    sum_.host_reads += move.reads ? at.times * move.bytes : 0.0;
    sum_.hbm_bytes += at.times * hbm_bytes(program_, at);
    if (one.opcode == "while" && trip_count(program_, *at.computation, at.index) == 0) {
      ++sum_.unknown_loops;
    }
  }
  Traffic take() { return std::move(sum_); }

 private:
  void add_collective(const Place& at) {
    const CollectiveSum one = collective(at);
    CollectiveSum& sum = sum_.collectives[std::string(collective_kind(at.instruction().opcode))];
    sum.count += at.times;
    sum.bytes += at.times * one.bytes;
    sum.interconnect_bytes += at.times * one.interconnect_bytes;
  }

  const HloModule& program_;
  Traffic sum_;
};

}  // namespace

CollectiveSum collective(const Place& at) {
  const HloInstruction& one = at.instruction();
  const std::string_view kind = collective_kind(one.opcode);
  double given = 0;
  for (const size_t operand : one.operands) {
    given += static_cast<double>(at.computation->instructions[operand].shape.bytes());
  }
  const double n = static_cast<double>(std::max<int64_t>(one.group, 1));
  const double around = one.group > 0 ? (n - 1) / n : 1.0;
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
  return {.count = 1, .bytes = bytes, .interconnect_bytes = link};
}

bool is_launched(const Place& at) { return !at.fused && !moves_nothing(at.instruction().opcode); }

double hbm_bytes(const HloModule& program, const Place& at) {
  const HloInstruction& one = at.instruction();
  if (!is_launched(at)) {
    return 0;
  }
  if (one.opcode == "copy-start") {  // its result contains source and destination
    return static_cast<double>(one.shape.device_bytes());
  }
  if (one.opcode == "dynamic-slice") {
    return 2 * static_cast<double>(one.shape.device_bytes());
  }
  // A kernel reads some operands several times, and reports it.
  if (const double said = said_bytes(one); said > 0) {
    return said;
  }
  double bytes = result_bytes(program, *at.computation, one, one.shape);
  for (size_t i = 0; i < one.operands.size(); ++i) {
    const HloShape& shape = at.computation->instructions[one.operands[i]].shape;
    if (one.opcode == "dynamic-update-slice" && i != 1) {
      continue;
    }
    bytes += one.opcode == "fusion" && one.calls.size() == 1
                 ? parameter_bytes(program, program.computations[one.calls[0]],
                                   static_cast<int64_t>(i), shape)
                 : static_cast<double>(shape.device_bytes());
  }
  return bytes + working_bytes(one);
}

namespace {

/// The move of an `async-start` of a slice, whose operands are in known memories; fusions inside it
/// are visited separately.
HostMove async_slice(const HloModule& program, const HloComputation& where,
                     const HloInstruction& start) {
  const HloComputation& inside = program.computations[start.calls[0]];
  const HloInstruction& root = inside.instructions[inside.root];
  if (start.operands.empty() || !on_host(where.instructions[start.operands[0]].shape)) {
    return {};
  }
  if (root.opcode == "dynamic-slice") {
    return {.bytes = static_cast<double>(root.shape.bytes()), .reads = true};
  }
  if (root.opcode == "dynamic-update-slice" && root.operands.size() > 1) {
    return {.bytes = static_cast<double>(inside.instructions[root.operands[1]].shape.bytes())};
  }
  return {};
}

}  // namespace

HostMove host_move(const HloModule& program, const Place& at) {
  const HloInstruction& one = at.instruction();
  if (one.opcode == "async-start" && one.calls.size() == 1) {
    return async_slice(program, *at.computation, one);
  }
  static const std::set<std::string_view> movers = {"copy", "copy-start", "fusion", "dynamic-slice",
                                                    "dynamic-update-slice"};
  const bool is_slice = one.opcode == "dynamic-slice" || one.opcode == "dynamic-update-slice";
  if (at.fused || !movers.contains(one.opcode) || (is_slice && at.inside != nullptr)) {
    return {};
  }
  const HloComputation& here = *at.computation;
  double bytes = 0;
  for (size_t i = 0; i < one.operands.size(); ++i) {
    const HloShape& shape = here.instructions[one.operands[i]].shape;
    const bool is_written_in_place = one.opcode == "dynamic-update-slice" && i == 0;
    if (!on_host(shape) || is_written_in_place) {
      continue;
    }
    HloShape as_device = shape;
    as_device.memory_space = 0;
    bytes += one.opcode == "fusion" && one.calls.size() == 1
                 ? parameter_bytes(program, program.computations[one.calls[0]],
                                   static_cast<int64_t>(i), as_device)
             : one.opcode == "dynamic-slice" ? static_cast<double>(one.shape.bytes())
                                             : static_cast<double>(shape.bytes());
  }
  if (bytes > 0) {
    return {.bytes = bytes, .reads = true};
  }
  if (!on_host(one.shape)) {
    return {};
  }
  const double update = result_bytes(program, here, one, one.shape);
  const bool slices = one.opcode == "fusion" || one.opcode == "dynamic-update-slice";
  return {.bytes = update > 0 && slices ? update : bytes_on_host(one.shape)};
}

Traffic traffic(const HloModule& program) {
  Sum sum(program);
  walk(program, [&](const Place& at) { sum.add(at); });
  return sum.take();
}

}  // namespace kinema::planning
