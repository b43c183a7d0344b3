// Preloaded by faults.py: files below the folder KINEMA_FAULT_FOLDER take KINEMA_FAULT_BYTES bytes
// in all, then the disk is full.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_llong left = -1;  // -1: not read yet

static int is_watched(int fd) {
  const char* folder = getenv("KINEMA_FAULT_FOLDER");
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (folder == NULL || length < 0) {
    return 0;
  }
  path[length] = 0;
  return strncmp(path, folder, strlen(folder)) == 0;
}

// How many of `size` bytes still fit; -1 with errno when none does.
static ssize_t room(int fd, size_t size) {
  if (!is_watched(fd) || size == 0) {
    return (ssize_t)size;
  }
  long long unread = -1;
  const char* bytes = getenv("KINEMA_FAULT_BYTES");
  atomic_compare_exchange_strong(&left, &unread, bytes != NULL ? atoll(bytes) : LLONG_MAX);
  const long long before = atomic_fetch_sub(&left, (long long)size);
  if (before >= (long long)size) {
    return (ssize_t)size;
  }
  atomic_store(&left, 0);
  if (before > 0) {
    return (ssize_t)before;  // as a real disk: what fits is written
  }
  errno = ENOSPC;
  return -1;
}

ssize_t write(int fd, const void* data, size_t size) {
  static ssize_t (*real)(int, const void*, size_t);
  if (real == NULL) {
    real = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  }
  const ssize_t fits = room(fd, size);
  return fits < 0 ? -1 : real(fd, data, (size_t)fits);
}

// What libstdc++'s streams call for a buffer and a block after it.
ssize_t writev(int fd, const struct iovec* parts, int count) {
  static ssize_t (*real)(int, const struct iovec*, int);
  if (real == NULL) {
    real = (ssize_t(*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "writev");
  }
  if (!is_watched(fd)) {
    return real(fd, parts, count);
  }
  ssize_t sum = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t written = write(fd, parts[i].iov_base, parts[i].iov_len);
    if (written < 0) {
      return sum > 0 ? sum : -1;
    }
    sum += written;
    if ((size_t)written < parts[i].iov_len) {
      break;
    }
  }
  return sum;
}
