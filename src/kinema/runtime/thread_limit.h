#pragma once

namespace kinema::runtime {

/// Throws an Error if this process cannot create the threads that XLA creates when a plugin opens
/// its devices and when it compiles: XLA would abort. Creates and ends the same number of threads,
/// which takes milliseconds.
void check_thread_limit();

}  // namespace kinema::runtime
