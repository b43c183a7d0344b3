#pragma once

#include <memory>

#include "kinema/world/world.h"

namespace kinema::world {

/// The world of a test program that mpirun started; joined once, as MPI requires.
inline World& test_world() {
  static const std::shared_ptr<World> world = World::join(detect_launch(own_environment()));
  return *world;
}

}  // namespace kinema::world
