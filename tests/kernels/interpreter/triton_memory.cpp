// Pointers, and the operations that read and write through them.
#include <limits>

#include "kernels/interpreter/triton_operations.h"

namespace kinema::interpreter {
namespace {

/// The same sizes with another element.
Type like(Type type, Element element) {
  type.element = element;
  type.pointer = false;
  return type;
}

Step add_pointer(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, 2, 1);
  const std::vector<Type> types = compiler.types(op.operands);
  compiler.check(op,
                 types[0].pointer && !is_float(types[1].element) &&
                     types[1] == like(types[0], types[1].element),
                 "its operands are {}", to_string(types));
  compiler.expect_result(op, types[0]);
  return [pointer = op.operands[0], offset = op.operands[1], y = op.results[0]](Frame& frame) {
    const Value& from = frame[pointer];
    const std::vector<int64_t>& offsets = frame[offset].integers;
    Value& to = frame.result(y);
    to.memory = from.memory;
    for (size_t i = 0; i < to.integers.size(); ++i) {
      to.integers[i] = static_cast<int64_t>(static_cast<uint64_t>(from.integers[i]) +
                                            static_cast<uint64_t>(offsets[i]));
    }
  };
}

/// The lanes of a load or store.
struct Lanes {
  Place place;
  int pointers = 0;
  int mask = -1;

  bool is_on(Frame& frame, size_t lane) const {
    return mask < 0 || frame[mask].integers[lane] != 0;
  }

  Memory& memory(Frame& frame) const {
    Memory* found = frame[pointers].memory;
    if (found == nullptr) place.fail("its pointers point nowhere");
    return *found;
  }

  size_t element(const Memory& memory, int64_t offset, size_t lane) const {
    const int64_t count = memory.contents.type.elements();
    if (offset < 0 || offset >= count) {
      place.fail("lane {} is element {} of {}, which has {}", lane, offset, memory.name, count);
    }
    return static_cast<size_t>(offset);
  }
};

void check_mask(const Compiler& compiler, const Operation& op, const Type& pointers, size_t mask) {
  const Type& type = compiler.type(op.operands[mask]);
  compiler.check(op, type == like(pointers, Element::I1), "its mask is {}", to_string(type));
}

Step load(Compiler& compiler, const Operation& op) {
  const size_t count = op.operands.size();
  compiler.check_counts(op, count, 1);
  const Dims segments = compiler.integers(op, "operandSegmentSizes");
  compiler.check(
      op, count >= 1 && count <= 3 && segments == Dims{1, count > 1 ? 1 : 0, count > 2 ? 1 : 0},
      "operandSegmentSizes {} of {} operands", to_string(segments), count);
  const Type& pointers = compiler.type(op.operands[0]);
  compiler.check(op, pointers.pointer, "its operand is {}", to_string(pointers));
  const Type type = like(pointers, pointers.element);
  if (count > 1) check_mask(compiler, op, pointers, 1);
  compiler.check(op, count < 3 || compiler.type(op.operands[2]) == type, "the other value is {}",
                 to_string(compiler.type(op.operands.back())));
  compiler.check(
      op,
      !op.attributes.contains("boundaryCheck") || compiler.integers(op, "boundaryCheck").empty(),
      "boundaryCheck is not covered");
  compiler.expect_result(op, type);
  const Lanes lanes{Place(op), op.operands[0], count > 1 ? op.operands[1] : -1};
  return [lanes, other = count > 2 ? op.operands[2] : -1, y = op.results[0]](Frame& frame) {
    const Memory& memory = lanes.memory(frame);
    const std::vector<int64_t>& offsets = frame[lanes.pointers].integers;
    Value& to = frame.result(y);
    spoil(&to);
    for (size_t i = 0; i < offsets.size(); ++i) {
      const bool on = lanes.is_on(frame, i);
      if (!on && other < 0) continue;
      const Value& from = on ? memory.contents : frame[other];
      const size_t at = on ? lanes.element(memory, offsets[i], i) : i;
      if (on && !memory.read_only && memory.writer[at] >= 0 && memory.writer[at] != frame.writer) {
        lanes.place.fail("lane {} is element {} of {}, which program {} stored", i, at, memory.name,
                         memory.writer[at]);
      }
      if (to.has_floats()) {
        to.floats[i] = from.floats[at];
      } else {
        to.integers[i] = from.integers[at];
      }
    }
  };
}

Step store(Compiler& compiler, const Operation& op) {
  const size_t count = op.operands.size();
  compiler.check_counts(op, count, 0);
  compiler.check(op, count == 2 || count == 3, "{} operands", count);
  const Type& pointers = compiler.type(op.operands[0]);
  const Type& type = compiler.type(op.operands[1]);
  compiler.check(op, pointers.pointer && type == like(pointers, pointers.element), "{} into {}",
                 to_string(type), to_string(pointers));
  if (count > 2) check_mask(compiler, op, pointers, 2);
  const Lanes lanes{Place(op), op.operands[0], count > 2 ? op.operands[2] : -1};
  return [lanes, x = op.operands[1]](Frame& frame) {
    Memory& memory = lanes.memory(frame);
    if (memory.read_only) lanes.place.fail("{} is stored to", memory.name);
    const std::vector<int64_t>& offsets = frame[lanes.pointers].integers;
    const Value& from = frame[x];
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (!lanes.is_on(frame, i)) continue;
      const size_t at = lanes.element(memory, offsets[i], i);
      int64_t& writer = memory.writer[at];
      if (writer >= 0 && writer != frame.writer) {
        lanes.place.fail("lane {} is element {} of {}, which program {} stored already", i, at,
                         memory.name, writer);
      }
      writer = frame.writer;
      if (from.has_floats()) {
        memory.contents.floats[at] = from.floats[i];
      } else {
        memory.contents.integers[at] = from.integers[i];
      }
    }
  };
}

}  // namespace

void add_triton_memory(Rules* rules) {
  rules->emplace("tt.addptr", add_pointer);
  rules->emplace("tt.load", load);
  rules->emplace("tt.store", store);
}

}  // namespace kinema::interpreter
