#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/environments/group.h"

namespace kinema::environments {

/// The suites of environments in Python that envs.py has.
std::vector<std::string> python_suites();

/// A group of environments in Python processes of this host, or of the host of options.address.
///
/// An environment that raises an exception is made again, and so are all of a process that ends or
/// does not answer: their step is the first of a new episode, and `restarts` is 1 among the log
/// values. The third failure within 300 s is an Error. Settings `processes` (0: one for each
/// environment, at most as many as this host has threads), `restart_failures` (2),
/// `restart_window` (300 s), `restart_wait` (1 s), `start_timeout` (300 s); the others are those of
/// the suite.
std::unique_ptr<Group> open_python_group(const GroupOptions& options);

}  // namespace kinema::environments
