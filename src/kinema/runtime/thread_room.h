#pragma once

namespace kinema::runtime {

/// Throws an Error where this process cannot make the threads that XLA makes when a plugin opens
/// its devices and when it compiles: it ends the process where one of them cannot be made. Makes as
/// many and ends them again, a matter of milliseconds.
void check_thread_room();

}  // namespace kinema::runtime
