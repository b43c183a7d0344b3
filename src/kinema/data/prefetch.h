#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kinema/data/source.h"

namespace kinema::data {

struct PrefetchOptions {
  int64_t batch_size = 1;
  /// First position of the order.
  int64_t start = 0;
  /// One past the last position at which a batch starts; negative: endless.
  int64_t end = -1;
  int threads = 2;
  /// Maximum number of batches in memory, including those being made.
  int64_t depth = 4;
  /// Indices of the samples of each batch to make, in order: those of this process's devices, if
  /// several processes share the batch. Empty: all.
  std::vector<int64_t> rows = {};
};

/// Makes batches ahead on worker threads and returns them in order.
///
/// Batch k has positions start + k * batch_size + [0, batch_size). A worker's Error is thrown by
/// the next() that would return its batch. The destructor stops the workers.
class Prefetcher {
 public:
  /// The source must outlive it.
  Prefetcher(const Source& source, const PrefetchOptions& options);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  /// The next batch; waits for it. Nothing after `end`.
  std::optional<Batch> next();
  /// The start position of the batch after the last returned one, for checkpoints.
  int64_t position() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::data
