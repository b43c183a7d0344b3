#include "kinema/pjrt/hlo_program.h"

#include <gmock/gmock.h>

#include "kinema/core/error.h"
#include "pjrt/hlo.pb.h"

namespace kinema::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void add(wire::HloComputation& computation, int64_t id, const std::string& name,
         const std::vector<int64_t>& operands) {
  wire::HloInstruction& one = *computation.add_instructions();
  one.set_id(id);
  one.set_name(name);
  for (const int64_t operand : operands) {
    one.add_operand_ids(operand);
  }
}

/// x (1), a (2) and b (3) of x, sum (4) of both, scheduled in `order`; empty: no schedule.
OptimizedProgram program(const std::vector<int64_t>& order) {
  wire::HloModule module;
  wire::HloComputation& computation = *module.add_computations();
  computation.set_id(7);
  computation.set_name("entry");
  computation.set_root_id(4);
  add(computation, 1, "x", {});
  add(computation, 2, "a", {1});
  add(computation, 3, "b", {1});
  add(computation, 4, "sum", {2, 3});
  module.set_entry_computation_id(7);
  for (const int64_t id : order) {
    (*module.mutable_schedule()->mutable_sequences())[7].add_instruction_ids(id);
  }
  return {.format = "hlo", .bytes = module.SerializeAsString()};
}

std::vector<std::string> names(const HloModule& module) {
  std::vector<std::string> out;
  for (const HloInstruction& one : module.computations[0].instructions) {
    out.push_back(one.name);
  }
  return out;
}

TEST(HloProgram, HasInstructionsInTheOrderOfTheSchedule) {
  EXPECT_THAT(names(read_hlo(program({}))), ElementsAre("x", "a", "b", "sum"));

  const HloModule module = read_hlo(program({1, 3, 2, 4}));
  EXPECT_THAT(names(module), ElementsAre("x", "b", "a", "sum"));
  const HloComputation& entry = module.computations[0];
  EXPECT_EQ(entry.root, 3U);
  EXPECT_THAT(entry.instructions[3].operands, ElementsAre(2U, 1U));
}

TEST(HloProgram, RefusesSchedulesThatCannotRun) {
  const auto refuses = [](const std::vector<int64_t>& order, const std::string& about) {
    EXPECT_THAT([&] { read_hlo(program(order)); }, ThrowsMessage<Error>(HasSubstr(about)));
  };
  refuses({1, 2, 3}, "lacks 1 of the instructions of entry");
  refuses({1, 2, 3, 3, 4}, "instruction 3 of entry");
  refuses({1, 2, 3, 4, 5}, "instruction 5 of entry");
  refuses({2, 1, 3, 4}, "refers to instruction 1");
}

}  // namespace
}  // namespace kinema::pjrt
