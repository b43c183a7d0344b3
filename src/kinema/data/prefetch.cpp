#include "kinema/data/prefetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/read_ahead.h"
#include "kinema/core/trace.h"

namespace kinema::data {
namespace {

PrefetchOptions checked(PrefetchOptions options) {
  check(options.batch_size > 0 && options.threads > 0 && options.depth > 0 && options.start >= 0,
        "[prefetch] batch_size {}, threads {} and depth {} must be positive", options.batch_size,
        options.threads, options.depth);
  for (const int64_t row : options.rows) {
    check(row >= 0 && row < options.batch_size, "[prefetch] sample {} lies outside a batch of {}",
          row, options.batch_size);
  }
  return options;
}

/// The number of batches that start before the end; negative: endless.
int64_t batches(const PrefetchOptions& options) {
  return options.end < 0
             ? -1
             : std::max<int64_t>(
                   0, (options.end - options.start + options.batch_size - 1) / options.batch_size);
}

}  // namespace

struct Prefetcher::State {
  State(const Source& source, const PrefetchOptions& given)
      : options(checked(given)),
        ahead(
            {.end = batches(options), .threads = options.threads, .depth = options.depth},
            [&source, this](int64_t k) { return make(source, k); },
            [](int thread) { trace::name_thread(fmt::format("data {}", thread)); }) {}

  int64_t begin_of(int64_t k) const { return options.start + k * options.batch_size; }

  Batch make(const Source& source, int64_t k) const {
    const trace::Scope span("read batch");
    std::vector<Sample> samples;
    if (options.rows.empty()) {
      for (int64_t i = 0; i < options.batch_size; ++i) {
        samples.push_back(source.at(begin_of(k) + i));
      }
      return stack(std::move(samples));
    }
    for (const int64_t row : options.rows) {
      samples.push_back(source.at(begin_of(k) + row));
    }
    Batch batch = stack(std::move(samples));
    batch.rows = options.rows;
    return batch;
  }

  PrefetchOptions options;
  ReadAhead<Batch> ahead;  // last member, because its threads read the options
};

Prefetcher::Prefetcher(const Source& source, const PrefetchOptions& options)
    : state_(std::make_unique<State>(source, options)) {}

Prefetcher::~Prefetcher() = default;

std::optional<Batch> Prefetcher::next() { return state_->ahead.next(); }

int64_t Prefetcher::position() const { return state_->begin_of(state_->ahead.position()); }

}  // namespace kinema::data
