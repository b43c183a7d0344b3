#pragma once

/// KINEMA_UNDER_SANITIZER: the address or the thread sanitizer, which replace malloc and need
/// address space. GCC defines macros for them, Clang has features.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KINEMA_UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KINEMA_UNDER_SANITIZER 1
#endif
#endif
