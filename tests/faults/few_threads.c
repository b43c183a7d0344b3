// Preloaded by scarcity.py: of the threads that the program's own code makes, the one with the
// number KINEMA_FAULT_THREAD (from 1) cannot be made, as under a limit of the number of processes;
// with KINEMA_FAULT_THREAD_ON nor can those after it. At the end the number of tries is written to
// the file KINEMA_FAULT_COUNT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int tries;

// Whether the first caller outside of this file and the C++ library is the program itself, and not
// a library, such as a plugin, with threads of its own.
static int is_of_the_program(void) {
  static char program[4096];
  if (program[0] == 0 && readlink("/proc/self/exe", program, sizeof program - 1) < 0) {
    return 0;
  }
  Dl_info own;
  dladdr((void*)is_of_the_program, &own);
  void* frames[16];
  const int count = backtrace(frames, 16);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || info.dli_fname == NULL) {
      return 0;
    }
    if (info.dli_fbase == own.dli_fbase || strstr(info.dli_fname, "libstdc++") != NULL) {
      continue;
    }
    char path[4096];
    return realpath(info.dli_fname, path) != NULL && strcmp(path, program) == 0;
  }
  return 0;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (real == NULL) {
    real = (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(
        RTLD_NEXT, "pthread_create");
  }
  const char* number = getenv("KINEMA_FAULT_THREAD");
  if (number != NULL && is_of_the_program()) {
    const int own = atomic_fetch_add(&tries, 1) + 1;
    const int wanted = atoi(number);
    if (wanted > 0 &&
        (own == wanted || (own > wanted && getenv("KINEMA_FAULT_THREAD_ON") != NULL))) {
      return EAGAIN;
    }
  }
  return real(thread, attributes, function, argument);
}

__attribute__((destructor)) static void write_count(void) {
  const char* path = getenv("KINEMA_FAULT_COUNT");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file != NULL) {
    fprintf(file, "%d\n", atomic_load(&tries));
    fclose(file);
  }
}
