#pragma once

#include <cstdint>
#include <memory>
#include <optional>

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
  /// This process reads samples `offset` ... of each global batch of `stride` samples (data
  /// parallel hosts); 0 stands for batch_size.
  int64_t stride = 0;
  int64_t offset = 0;
};

/// Makes batches ahead on worker threads and hands them out in order.
///
/// Batch k holds positions start + k * stride + offset + [0, batch_size). An Error of a worker is
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
