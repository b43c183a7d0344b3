#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kinema/data/source.h"

namespace kinema::data {

struct PrefetchOptions {
  int64_t batch_size = 1;
  /// First position of the order to deliver.
  int64_t start = 0;
  /// One past the last position to begin a batch at; negative: endless.
  int64_t end = -1;
  int threads = 2;
  /// Batches ready at most, those being made included.
  int64_t depth = 4;
  /// Which samples of each batch are made, in order: those of this process's devices, where several
  /// share the batch. Empty: all.
  std::vector<int64_t> rows = {};
};

/// Makes batches ahead on worker threads and hands them out in order.
///
/// Batch k holds positions start + k * batch_size + [0, batch_size). An Error of a worker is
/// thrown by the next() whose batch it hit. The destructor stops the workers.
class Prefetcher {
 public:
  /// The source must outlive it.
  Prefetcher(const Source& source, const PrefetchOptions& options);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  /// The next batch; waits for it. Nothing after `end`.
  std::optional<Batch> next();
  /// Position where the batch after the last delivered one begins: what a checkpoint stores.
  int64_t position() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::data
