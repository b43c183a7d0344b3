#include "kinema/pjrt/hlo_schedule.h"

#include <map>

#include "kinema/core/error.h"

namespace kinema::pjrt {

std::vector<const wire::HloInstruction*> instructions_in_order(
    const wire::HloModule& module, const wire::HloComputation& computation) {
  std::vector<const wire::HloInstruction*> given;
  for (const wire::HloInstruction& instruction : computation.instructions()) {
    given.push_back(&instruction);
  }
  const auto found = module.schedule().sequences().find(computation.id());
  if (found == module.schedule().sequences().end()) {
    return given;
  }
  std::map<int64_t, const wire::HloInstruction*> by_id;
  for (const wire::HloInstruction* instruction : given) {
    by_id.emplace(instruction->id(), instruction);
  }
  std::vector<const wire::HloInstruction*> out;
  for (const int64_t id : found->second.instruction_ids()) {
    const auto one = by_id.extract(id);
    check(!one.empty(),
          "[pjrt] the optimized program's schedule has instruction {} of {}, which it lacks or has "
          "had already",
          id, computation.name());
    out.push_back(one.mapped());
  }
  check(by_id.empty(), "[pjrt] the optimized program's schedule lacks {} of the instructions of {}",
        by_id.size(), computation.name());
  return out;
}

}  // namespace kinema::pjrt
