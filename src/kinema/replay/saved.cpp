#include <algorithm>
#include <cstring>

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

void Chunk::fill(const Arrays& steps) {
  check(length_ == 0, "[replay] chunk {} is not empty", number_);
  for (const auto& [name, value] : steps) {
    check(value.shape.rank() >= 1 && value.shape.dims[0] > 0 && value.shape.dims[0] <= size_,
          "[replay] `{}` of chunk {} is {} but must be of 1 to {} steps", name, number_,
          to_string(value.shape), size_);
    check(length_ == 0 || value.shape.dims[0] == length_,
          "[replay] values of chunk {} have {} and {} steps", number_, length_,
          value.shape.dims[0]);
    length_ = value.shape.dims[0];
    Shape shape = value.shape;
    shape.dims[0] = size_;
    HostArray whole(shape);
    std::ranges::copy(value.bytes, whole.bytes.begin());
    arrays_[name] = std::move(whole);
  }
}

std::vector<uint64_t> Replay::chunk_numbers() const {
  const std::scoped_lock lock(mutex_);
  std::vector<uint64_t> out;
  for (const auto& [number, chunk] : chunks_) {
    out.push_back(number);
  }
  return out;
}

Arrays Replay::chunk(uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = chunks_.find(number);
  check(found != chunks_.end(), "[replay] there is no chunk {}", number);
  const int64_t length = found->second.length();
  Arrays out;
  for (const auto& [name, value] : found->second.arrays()) {
    Shape shape = value.shape;
    shape.dims[0] = length;
    HostArray part(shape);
    std::copy_n(value.bytes.begin(), part.bytes.size(), part.bytes.begin());
    out[name] = std::move(part);
  }
  return out;
}

Arrays Replay::index() const {
  const std::scoped_lock lock(mutex_);
  Rows chunks(4);
  for (const auto& [number, chunk] : chunks_) {
    chunks.add(number, chunk.successor(), uses_.at(number), chunk.length());
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
  return {{"chunks", chunks.array()},    {"workers", workers.array()}, {"newest", newest.array()},
          {"starts", starts.array()},    {"queue", queue.array()},     {"next", next.array()},
          {"selector", selector.array()}};
}

void Replay::restore(const Arrays& index, const std::function<Arrays(uint64_t)>& chunk) {
  const std::scoped_lock lock(mutex_);
  check(chunks_.empty() && workers_.empty(), "[replay] only an empty replay can be restored");
  for (const auto& row : rows_of(index, "chunks", 4)) {
    const auto number = static_cast<uint64_t>(row[0]);
    Chunk& made = chunks_.emplace(number, Chunk(number, options_.chunk_size)).first->second;
    made.set_successor(static_cast<uint64_t>(row[1]));
    uses_[number] = row[2];
    if (row[3] > 0) {
      made.fill(chunk(number));
    }
    check(made.length() == row[3], "[replay] chunk {} has {} steps but must have {}", number,
          made.length(), row[3]);
  }
  const auto check_step = [&](const StepId& step) {
    const auto found = chunks_.find(step.chunk);
    check(found != chunks_.end() && step.index < found->second.length(),
          "[replay] what was saved has no step {} of chunk {}", step.index, step.chunk);
  };
  for (const auto& row : rows_of(index, "workers", 3)) {
    workers_[row[0]] = {.chunk = static_cast<uint64_t>(row[1]), .steps = row[2], .newest = {}};
  }
  for (const auto& row : rows_of(index, "newest", 3)) {
    check_step(step_at(row, 1));
    workers_[row[0]].newest.push_back(step_at(row, 1));
  }
  const auto next = rows_of(index, "next", 2);
  check(next.size() == 1, "[replay] what was saved has {} next numbers", next.size());
  next_window_ = next[0][0];
  next_chunk_ = static_cast<uint64_t>(next[0][1]);
  for (const auto& row : rows_of(index, "starts", 3)) {
    check_step(step_at(row, 1));
    starts_[row[0]] = step_at(row, 1);
  }
  for (const auto& row : rows_of(index, "queue", 2)) {
    queue_.push_back(step_at(row, 0));
  }
  std::vector<int64_t> state;
  for (const auto& row : rows_of(index, "selector", 1)) {
    state.push_back(row[0]);
  }
  if (!state.empty()) {
    selector_->restore(state);
    return;
  }
  for (const auto& [window, start] : starts_) {
    selector_->insert(window, steps_from(start));
  }
}

}  // namespace kinema::replay
