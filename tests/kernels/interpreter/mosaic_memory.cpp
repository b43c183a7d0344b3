// Operations that read and write memrefs.
#include "kernels/interpreter/mosaic_operations.h"
#include "kernels/interpreter/strided.h"

namespace kinema::interpreter {
namespace {

bool is_vector(const Type& type) { return type.kind == Type::Kind::VECTOR; }

/// The memref operand at `at`, followed by an index for each of its dimensions.
const Type& indexed_memref(const Compiler& compiler, const Operation& op, size_t at,
                           const char* space) {
  const std::vector<Type> types = compiler.types(op.operands);
  compiler.check(
      op,
      at < types.size() && types[at].kind == Type::Kind::MEMREF && types[at].memory_space == space,
      "its operands are {}: no memref of {} is operand {}", to_string(types), space, at);
  compiler.check(op, types.size() == at + 1 + types[at].dims.size(), "{} indices for {}",
                 types.size() - at - 1, to_string(types[at]));
  for (size_t i = at + 1; i < types.size(); ++i) {
    compiler.check(op, types[i] == Type{.element = Element::INDEX}, "an index is {}",
                   to_string(types[i]));
  }
  return compiler.type(op.operands[at]);
}

/// Part of a memory at indices that are values.
struct Access {
  Place place;
  int memref;
  std::vector<int> indices;
  Dims sizes;

  Access(const Operation& op, size_t at, Dims read)
      : place(op),
        memref(op.operands[at]),
        indices(op.operands.begin() + static_cast<int64_t>(at) + 1, op.operands.end()),
        sizes(std::move(read)) {}

  Memory& memory(Frame& frame) const {
    Memory* found = frame[memref].memory;
    if (found == nullptr) place.fail("its memref has no memory");
    return *found;
  }

  Walk walk(Frame& frame) const {
    const Memory& memory = this->memory(frame);
    const Dims& dims = memory.contents.type.dims;
    Dims at;
    for (const int index : indices) at.push_back(frame[index].integer());
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] < 0 || at[i] > dims[i] - sizes[i]) {
        place.fail("{} + {} is beyond {} of {}", to_string(at), to_string(sizes), memory.name,
                   to_string(dims));
      }
    }
    return walk_from(dims, at);
  }
};

Step load(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, op.operands.size(), 1);
  const Type& ref = indexed_memref(compiler, op, 0, "vmem");
  const Type& type = compiler.type(op.results[0]);
  compiler.check(op, is_vector(type) && type.element == ref.element && type.rank() == ref.rank(),
                 "{} of {}", to_string(type), to_string(ref));
  return [access = Access(op, 0, type.dims), write = Walk{.strides = strides_of(type.dims)},
          y = op.results[0]](Frame& frame) {
    const Walk read = access.walk(frame);
    copy_strided(access.memory(frame).contents, read, &frame.result(y), write, access.sizes);
  };
}

Step vector_store(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, op.operands.size(), 0);
  const Type& ref = indexed_memref(compiler, op, 1, "vmem");
  const Type& type = compiler.type(op.operands[0]);
  compiler.check(op, is_vector(type) && type.element == ref.element && type.rank() == ref.rank(),
                 "{} into {}", to_string(type), to_string(ref));
  const Dims segments = compiler.integers(op, "operandSegmentSizes");
  compiler.check(op, segments == Dims{1, 1, ref.rank(), 0},
                 "operandSegmentSizes {}, [1,1,{},0] expected (masks are not covered)",
                 to_string(segments), ref.rank());
  compiler.check(op, compiler.integers(op, "strides").empty(), "strides are not covered");
  const bool add = compiler.attribute(op, "add", Attribute::Kind::BOOL).integer != 0;
  return [access = Access(op, 1, type.dims), read = Walk{.strides = strides_of(type.dims)},
          x = op.operands[0], copy = add ? Copy::ADD : Copy::REPLACE](Frame& frame) {
    const Walk write = access.walk(frame);
    Memory& memory = access.memory(frame);
    if (memory.read_only) access.place.fail("{} is stored to", memory.name);
    copy_strided(frame[x], read, &memory.contents, write, access.sizes, copy);
    if (copy == Copy::ADD && memory.contents.has_floats()) {
      round_to(memory.contents.type.element, memory.contents.floats);
    }
  };
}

Step scalar_load(Compiler& compiler, const Operation& op) {
  const Type& ref = indexed_memref(compiler, op, 0, "smem");
  compiler.expect_result(op, Type{.element = ref.element});
  return [access = Access(op, 0, Dims(ref.dims.size(), 1)), y = op.results[0]](Frame& frame) {
    const Walk read = access.walk(frame);
    copy_strided(access.memory(frame).contents, read, &frame.result(y), {}, {});
  };
}

Step scalar_store(Compiler& compiler, const Operation& op) {
  compiler.check_counts(op, op.operands.size(), 0);
  const Type& ref = indexed_memref(compiler, op, 1, "smem");
  const Type& type = compiler.type(op.operands[0]);
  compiler.check(op, type == Type{.element = ref.element}, "{} into {}", to_string(type),
                 to_string(ref));
  return [access = Access(op, 1, Dims(ref.dims.size(), 1)), x = op.operands[0]](Frame& frame) {
    const Walk write = access.walk(frame);
    Memory& memory = access.memory(frame);
    if (memory.read_only) access.place.fail("{} is stored to", memory.name);
    copy_strided(frame[x], {}, &memory.contents, write, {});
  };
}

}  // namespace

void add_mosaic_memory(Rules* rules) {
  rules->emplace("vector.load", load);
  rules->emplace("tpu.vector_store", vector_store);
  rules->emplace("memref.load", scalar_load);
  rules->emplace("memref.store", scalar_store);
}

}  // namespace kinema::interpreter
