#include "kinema/cli/processes.h"

#include <cstdio>
#include <cstdlib>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/core/error.h"
#include "kinema/runs/place.h"

namespace kinema::cli {
namespace {

std::shared_ptr<world::World>& joined() {
  static std::shared_ptr<world::World> world;
  return world;
}

/// Process 0 prints what reached it, the others only where it does not answer.
void print_of_several(world::World& world, const std::string& error) {
  constexpr double kAnswer = 15;  // seconds: process 0 may be within a compile
  constexpr double kGather = 1.5;
  const bool known = world.pulse()->fail(error, kAnswer);
  if (world.is_first()) {
    for (const std::string& line : world.pulse()->errors(kGather)) {
      std::fprintf(stderr, "kinema: %s\n", line.c_str());
    }
    std::fflush(stderr);
    world.pulse()->said();
  } else if (!known) {
    std::fprintf(stderr, "kinema: [%s] %s\n", world.name_of(world.rank()).c_str(), error.c_str());
  }
  std::fflush(nullptr);
  // Ending MPI would wait for those that are gone; the launcher ends them.
  std::_Exit(1);
}

void join(const world::Place& place) {
  joined() = world::World::join(place, warn);
  if (world::Pulse* pulse = joined()->pulse()) {
    pulse->set_overdue([] { print_of_several(*joined(), joined()->failure()); });
  }
  if (world::Pulse* pulse = joined()->pulse()) {
    pulse->set_show(warn);
  }
  if (!joined()->is_first()) {
    mute();
    if (std::freopen("/dev/null", "w", stdout) == nullptr) {
      std::fclose(stdout);
    }
  }
}

}  // namespace

std::shared_ptr<world::World> joined_world() {
  if (!joined()) {
    join(world::find_place(world::own_environment()));
  }
  return joined();
}

std::shared_ptr<world::World> joined_world(const config::Config& config) {
  if (joined_world()->is_alone()) {
    const world::Place place = runs::place_of(config, joined()->place());
    if (place.size > 1) {
      join(place);
    }
  }
  return joined();
}

int fail_with(const std::string& error) {
  if (joined() && !joined()->is_alone()) {
    print_of_several(*joined(), error);
  }
  std::fprintf(stderr, "kinema: %s\n", error.c_str());
  return 1;
}

}  // namespace kinema::cli
