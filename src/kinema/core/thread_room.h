#pragma once

#include <string_view>

namespace kinema {

/// Throws an Error where this process cannot make so many more threads, which a library (`who`)
/// makes and without which it ends the process. Makes as many and ends them again, a matter of
/// milliseconds.
void check_thread_room(int threads, std::string_view who);

}  // namespace kinema
