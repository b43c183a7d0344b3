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
  if (options.stride == 0) {
    options.stride = options.batch_size;
  }
  check(options.batch_size > 0 && options.threads > 0 && options.depth > 0 && options.start >= 0,
        "[prefetch] batch_size {}, threads {} and depth {} must be positive", options.batch_size,
        options.threads, options.depth);
  check(options.offset >= 0 && options.offset + options.batch_size <= options.stride,
        "[prefetch] samples {} to {} lie outside a global batch of {}", options.offset,
        options.offset + options.batch_size, options.stride);
  return options;
}

/// How many batches begin before the end; negative: no end.
int64_t batches(const PrefetchOptions& options) {
  return options.end < 0 ? -1
                         : std::max<int64_t>(0, (options.end - options.start + options.stride - 1) /
                                                    options.stride);
}

}  // namespace

struct Prefetcher::State {
  State(const Source& source, const PrefetchOptions& given)
      : options(checked(given)),
        ahead(
            {.end = batches(options), .threads = options.threads, .depth = options.depth},
            [&source, this](int64_t k) { return make(source, k); },
            [](int thread) { trace::name_thread(fmt::format("data {}", thread)); }) {}

  int64_t begin_of(int64_t k) const { return options.start + k * options.stride; }

  Batch make(const Source& source, int64_t k) const {
    const trace::Scope span("read batch");
    std::vector<Sample> samples;
    for (int64_t i = 0; i < options.batch_size; ++i) {
      samples.push_back(source.at(begin_of(k) + options.offset + i));
    }
    return stack(std::move(samples));
  }

  PrefetchOptions options;
  ReadAhead<Batch> ahead;  // last: its threads read the options
};

Prefetcher::Prefetcher(const Source& source, const PrefetchOptions& options)
    : state_(std::make_unique<State>(source, options)) {}

Prefetcher::~Prefetcher() = default;

std::optional<Batch> Prefetcher::next() { return state_->ahead.next(); }

int64_t Prefetcher::position() const { return state_->begin_of(state_->ahead.position()); }

}  // namespace kinema::data
