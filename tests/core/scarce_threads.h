#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

/// Replaces the test program's pthread_create, so that a limit can make it fail. Include it in one
/// file of a program.
namespace kinema {

/// While it exists, this many threads can be made; further ones fail as under a limit on processes.
struct ScarceThreads {
  static inline std::atomic<int> left = -1;  // negative: no limit

  explicit ScarceThreads(int count) { left = count; }
  ScarceThreads(const ScarceThreads&) = delete;
  ScarceThreads& operator=(const ScarceThreads&) = delete;
  ~ScarceThreads() { left = -1; }
};

}  // namespace kinema

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*function)(void*), void* argument) {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (kinema::ScarceThreads::left >= 0 && kinema::ScarceThreads::left-- == 0) {
    kinema::ScarceThreads::left = 0;
    return EAGAIN;
  }
  return real(thread, attributes, function, argument);
}
