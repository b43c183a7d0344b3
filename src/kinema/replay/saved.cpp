#include <utility>

#include "kinema/core/error.h"
#include "kinema/replay/replay.h"

namespace kinema::replay {
namespace {

/// Rows of whole numbers, S64 [n, width].
class Rows {
 public:
  explicit Rows(int64_t width) : width_(width) {}
  template <typename... T>
  void add(T... values) {
    (values_.push_back(static_cast<int64_t>(values)), ...);
  }
  HostArray array() const {
    const auto n = static_cast<int64_t>(values_.size()) / width_;
    return HostArray::from<int64_t>(DType::S64, {n, width_}, values_);
  }

 private:
  int64_t width_;
  std::vector<int64_t> values_;
};

/// The rows of a saved array.
std::vector<std::span<const int64_t>> rows_of(const Arrays& index, const std::string& name,
                                              int64_t width) {
  const auto found = index.find(name);
  check(found != index.end(), "[replay] what was saved has no `{}`", name);
  const HostArray& array = found->second;
  check(array.shape.dtype == DType::S64 && array.shape.rank() == 2 && array.shape.dims[1] == width,
        "[replay] `{}` is {} but must be s64[n, {}]", name, to_string(array.shape), width);
  std::vector<std::span<const int64_t>> out;
  const std::span<const int64_t> all = array.as<int64_t>();
  for (size_t at = 0; at < all.size(); at += static_cast<size_t>(width)) {
    out.push_back(all.subspan(at, static_cast<size_t>(width)));
  }
  return out;
}

StepId step_at(std::span<const int64_t> row, size_t first) {
  return {.chunk = static_cast<uint64_t>(row[first]),
          .index = static_cast<uint32_t>(row[first + 1])};
}

}  // namespace

std::vector<uint64_t> Replay::chunk_numbers() const {
  const std::scoped_lock lock(mutex_);
  std::vector<uint64_t> out;
  for (const auto& [number, chunk] : chunks_) {
    if (!chunk.is_file()) {
      out.push_back(number);
    }
  }
  return out;
}

Arrays Replay::chunk(uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = chunks_.find(number);
  check(found != chunks_.end(), "[replay] there is no chunk {}", number);
  return found->second.arrays();
}

Arrays Replay::index() const {
  const std::scoped_lock lock(mutex_);
  Rows chunks(4);
  for (const auto& [number, chunk] : chunks_) {
    chunks.add(number, chunk.successor(), uses_.at(number), chunk.length());
  }
  Rows checksums(2);
  for (const auto& [number, chunk] : chunks_) {
    if (chunk.is_file()) {
      checksums.add(number, chunk.checksum(options_.updated));
    }
  }
  Rows workers(3);
  Rows newest(3);
  for (const auto& [number, worker] : workers_) {
    workers.add(number, worker.chunk, worker.steps);
    for (const StepId& step : worker.newest) {
      newest.add(number, step.chunk, step.index);
    }
  }
  Rows starts(3);
  for (const auto& [window, start] : starts_) {
    starts.add(window, start.chunk, start.index);
  }
  Rows queue(2);
  for (const StepId& start : queue_) {
    queue.add(start.chunk, start.index);
  }
  Rows next(2);
  next.add(next_window_, next_chunk_);
  Rows selector(1);
  for (const int64_t number : selector_->state()) {
    selector.add(number);
  }
  return {{"chunks", chunks.array()},   {"checksums", checksums.array()},
          {"workers", workers.array()}, {"newest", newest.array()},
          {"starts", starts.array()},   {"queue", queue.array()},
          {"next", next.array()},       {"selector", selector.array()}};
}

int64_t Replay::restore_chunks(const Arrays& index, const std::function<Arrays(uint64_t)>& chunk,
                               std::vector<std::string>& problems) {
  std::map<uint64_t, uint64_t> checksums;  // of files
  if (index.contains("checksums")) {       // not in checkpoints of earlier versions
    for (const auto& row : rows_of(index, "checksums", 2)) {
      checksums[static_cast<uint64_t>(row[0])] = static_cast<uint64_t>(row[1]);
    }
  }
  int64_t left_out = 0;
  std::optional<Layout> layout;
  for (const auto& row : rows_of(index, "chunks", 4)) {
    const auto number = static_cast<uint64_t>(row[0]);
    const int64_t length = row[3];
    Chunk made(number, options_.chunk_size);
    made.set_successor(static_cast<uint64_t>(row[1]));
    if (const auto checksum = checksums.find(number); checksum != checksums.end()) {
      try {
        check(files_ != nullptr, "[replay] chunk {} is a file, but this replay has no folder",
              number);
        check(files_->has(number), "[replay] {} is missing", files_->path(number).string());
        if (!layout) {
          layout = files_->layout_of(number);
        }
        made.take(files_->open(number, *layout), *layout, length);
        check(made.checksum(options_.updated) == checksum->second, "[replay] {} is damaged",
              files_->path(number).string());
      } catch (const Error& error) {
        problems.push_back(std::string(error.what()) + "; it is left out");
        ++left_out;
        continue;
      }
    } else if (length > 0) {
      made.fill(chunk(number), new_block());
      layout = made.layout();
    }
    check(made.length() == length, "[replay] chunk {} has {} steps but must have {}", number,
          made.length(), length);
    chunks_.emplace(number, std::move(made));
  }
  return left_out;
}

bool Replay::has_steps(StepId start) const {
  for (int64_t left = options_.length; left > 0;) {
    const auto found = chunks_.find(start.chunk);
    if (found == chunks_.end()) {
      return false;
    }
    left -= found->second.length() - start.index;
    if (left > 0 && !found->second.is_full()) {
      return false;
    }
    start = {.chunk = found->second.successor(), .index = 0};
  }
  return true;
}

void Replay::recount() {
  for (auto& [number, chunk] : chunks_) {
    if (!chunks_.contains(chunk.successor())) {
      chunk.set_successor(0);
    }
  }
  uses_.clear();
  for (const auto& [number, chunk] : chunks_) {
    uses_[number] += 0;
    if (chunk.successor() != 0) {
      ++uses_[chunk.successor()];
    }
  }
  for (const auto& [number, worker] : workers_) {
    if (worker.chunk != 0) {
      ++uses_[worker.chunk];
    }
    for (const StepId& step : worker.newest) {
      ++uses_[step.chunk];
    }
  }
  for (const auto& [window, start] : starts_) {
    ++uses_[start.chunk];
  }
  std::vector<uint64_t> unused;
  for (const auto& [number, uses] : uses_) {
    if (uses == 0) {
      unused.push_back(number);
    }
  }
  for (const uint64_t number : unused) {
    ++uses_.at(number);
    release(number);
  }
}

std::vector<std::string> Replay::restore(const Arrays& index,
                                         const std::function<Arrays(uint64_t)>& chunk) {
  const std::scoped_lock lock(mutex_);
  check(chunks_.empty() && workers_.empty(), "[replay] only an empty replay can be restored");
  std::vector<std::string> problems;
  const bool is_whole = restore_chunks(index, chunk, problems) == 0;
  // Without all chunks, a step is passed over where its chunk was left out.
  const auto has_step = [&](const StepId& step) {
    const auto found = chunks_.find(step.chunk);
    const bool has = found != chunks_.end() && step.index < found->second.length();
    check(has || !is_whole, "[replay] what was saved has no step {} of chunk {}", step.index,
          step.chunk);
    return has;
  };
  for (const auto& row : rows_of(index, "workers", 3)) {
    const auto number = static_cast<uint64_t>(row[1]);
    check(number == 0 || chunks_.contains(number) || !is_whole,
          "[replay] what was saved has no chunk {}", number);
    workers_[row[0]] = {
        .chunk = chunks_.contains(number) ? number : 0, .steps = row[2], .newest = {}};
  }
  for (const auto& row : rows_of(index, "newest", 3)) {
    std::deque<StepId>& newest = workers_[row[0]].newest;
    if (has_step(step_at(row, 1))) {
      newest.push_back(step_at(row, 1));
    } else {
      newest.clear();
    }
  }
  for (auto& [number, worker] : workers_) {
    if (worker.chunk == 0) {
      worker.newest.clear();
    }
  }
  const auto next = rows_of(index, "next", 2);
  check(next.size() == 1, "[replay] what was saved has {} next numbers", next.size());
  next_window_ = next[0][0];
  next_chunk_ = static_cast<uint64_t>(next[0][1]);
  for (const auto& row : rows_of(index, "starts", 3)) {
    if (has_step(step_at(row, 1)) && (is_whole || has_steps(step_at(row, 1)))) {
      starts_[row[0]] = step_at(row, 1);
    }
  }
  for (const auto& row : rows_of(index, "queue", 2)) {
    if (is_whole || has_steps(step_at(row, 0))) {
      queue_.push_back(step_at(row, 0));
    }
  }
  recount();
  if (files_ != nullptr) {
    std::set<uint64_t> kept;
    for (const auto& [number, each] : chunks_) {
      kept.insert(number);
    }
    files_->keep_only(kept);
  }
  std::vector<int64_t> state;
  for (const auto& row : rows_of(index, "selector", 1)) {
    state.push_back(row[0]);
  }
  if (!state.empty() && is_whole) {
    selector_->restore(state);
    return problems;
  }
  for (const auto& [window, start] : starts_) {
    selector_->insert(window, steps_from(start));
  }
  return problems;
}

void Replay::sync() {
  const std::scoped_lock lock(mutex_);
  if (files_ != nullptr) {
    files_->sync();
  }
}

void Replay::drop_released() {
  const std::scoped_lock lock(mutex_);
  if (files_ != nullptr) {
    files_->drop_released();
  }
}

void Replay::clear_folder() {
  const std::scoped_lock lock(mutex_);
  if (files_ != nullptr) {
    files_->keep_only({});
  }
}

std::vector<std::string> Replay::take_notices() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(notices_, {});
}

int64_t Replay::mapped_bytes() const {
  const std::scoped_lock lock(mutex_);
  return files_ == nullptr ? 0 : files_->mapped_bytes();
}

}  // namespace kinema::replay
