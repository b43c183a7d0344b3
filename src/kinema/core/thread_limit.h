#pragma once

#include <string_view>

namespace kinema {

/// Throws an Error where this process cannot make `threads` more threads. A library (`who`) needs
/// them and ends the process if it cannot make them. Tries by making as many and ending them, which
/// takes milliseconds.
void check_thread_limit(int threads, std::string_view who);

}  // namespace kinema
