#include "kinema/plans/expected_step.h"

#include <string>

#include "kinema/core/error.h"
#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/chip.h"
#include "kinema/planning/expected.h"
#include "kinema/planning/target.h"
#include "kinema/runtime/array.h"

namespace kinema::plans {

double expected_step_seconds(const training::Trainer& trainer, size_t shape) {
  const std::string chip(planning::chip_of_kind(trainer.devices()[0].description().kind));
  if (chip.empty()) {
    return 0;
  }
  try {
    const pjrt::HloModule program = pjrt::read_hlo(trainer.program(shape).executable().optimized());
    return planning::expected_time(program, planning::chip_of_target(chip)).seconds();
  } catch (const Error&) {  // a program in pieces, or a plugin that does not tell
    return 0;
  }
}

}  // namespace kinema::plans
