#include "kinema/replay/replay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::replay {
namespace {

constexpr const char* kStepId = "stepid";

/// The ids of `stepid` [..., 20].
std::vector<StepId> ids_of(const HostArray& stepid) {
  check(stepid.shape.dtype == DType::U8 && stepid.shape.rank() >= 1 &&
            stepid.shape.dims.back() == StepId::kBytes,
        "[replay] stepid is {} but must be u8[..., {}]", to_string(stepid.shape), StepId::kBytes);
  std::vector<StepId> ids;
  for (size_t at = 0; at < stepid.bytes.size(); at += StepId::kBytes) {
    ids.push_back(StepId::from_bytes(std::span(stepid.bytes).subspan(at, StepId::kBytes)));
  }
  return ids;
}

/// is_last before is_first, and is_first at the start of each row: flags [rows, length], one byte
/// each.
void mark_ends(Arrays& samples) {
  const auto first = samples.find("is_first");
  if (first == samples.end()) {
    return;
  }
  const int64_t rows = first->second.shape.dims[0];
  const int64_t length = first->second.shape.dims[1];
  const auto last = samples.find("is_last");
  for (int64_t row = 0; row < rows; ++row) {
    std::byte* is_first = first->second.bytes.data() + row * length;
    if (last != samples.end()) {
      std::byte* is_last = last->second.bytes.data() + row * length;
      for (int64_t t = 0; t + 1 < length; ++t) {
        is_last[t] |= is_first[t + 1];
      }
    }
    is_first[0] = std::byte{1};
  }
}

}  // namespace

Replay::Replay(const ReplayOptions& options, std::unique_ptr<Selector> selector)
    : options_(options),
      selector_(selector ? std::move(selector) : std::make_unique<Uniform>(options.seed)) {
  check(options.length > 0 && options.chunk_size > 0 && options.capacity >= 0,
        "[replay] windows of {} steps, chunks of {} and a capacity of {}: the first two must be "
        "positive, the last not negative",
        options.length, options.chunk_size, options.capacity);
  if (!options.folder.empty()) {
    files_ = std::make_unique<ChunkFiles>(options.folder, options.memory);
  }
}

NewBlock Replay::new_block() {
  return [this](uint64_t number, const Layout& layout) -> std::unique_ptr<Block> {
    if (files_ == nullptr) {
      return memory_block(layout);
    }
    try {
      std::unique_ptr<Block> out = files_->create(number, layout);
      if (std::exchange(is_disk_full_, false)) {
        notices_.emplace_back("[replay] new steps are written to the disk again");
      }
      return out;
    } catch (const Error& error) {
      if (!std::exchange(is_disk_full_, true)) {
        notices_.push_back(std::string(error.what()) +
                           "\n  new steps stay in memory while there is no space");
      }
      return memory_block(layout);
    }
  };
}

void Replay::limit_memory() {
  if (!is_disk_full_) {
    return;
  }
  const auto used = [&] {
    int64_t bytes = 0;
    for (const auto& [number, chunk] : chunks_) {
      bytes += chunk.layout() && !chunk.is_file() ? chunk.layout()->bytes() : 0;
    }
    return bytes;
  };
  while (starts_.size() > 1 && used() > options_.memory) {
    erase_oldest();
  }
}

Chunk& Replay::begin_chunk() {
  const uint64_t number = next_chunk_++;
  uses_[number] = 1;  // by its writer
  return chunks_.emplace(number, Chunk(number, options_.chunk_size)).first->second;
}

void Replay::release(uint64_t chunk) {
  // A removed chunk no longer holds the next one, which may then be removed too.
  while (chunk != 0 && --uses_.at(chunk) == 0) {
    const uint64_t successor = chunks_.at(chunk).successor();
    chunks_.erase(chunk);
    uses_.erase(chunk);
    chunk = successor;
  }
}

void Replay::add(const Arrays& step, int64_t worker) {
  Arrays kept;
  for (const auto& [name, value] : step) {
    check(name != kStepId, "[replay] a step has a value `{}`, which is the name of its id", name);
    if (!name.starts_with("log/")) {
      kept[name] = value;
    }
  }
  const std::scoped_lock lock(mutex_);
  Worker& w = workers_[worker];
  if (w.chunk == 0) {
    w.chunk = begin_chunk().number();
  }
  Chunk& chunk = chunks_.at(w.chunk);
  const StepId id{.chunk = w.chunk, .index = static_cast<uint32_t>(chunk.length())};
  const bool is_first = chunk.length() == 0;
  chunk.append(kept, new_block());
  w.newest.push_back(id);
  ++uses_.at(id.chunk);  // a window may begin here
  if (chunk.is_full()) {
    Chunk& next = begin_chunk();
    chunk.set_successor(next.number());
    ++uses_.at(next.number());  // this one is kept
    const uint64_t full = std::exchange(w.chunk, next.number());
    release(full);
  }
  if (static_cast<int64_t>(w.newest.size()) > options_.length) {
    release(w.newest.front().chunk);
    w.newest.pop_front();
  }
  if (static_cast<int64_t>(w.newest.size()) == options_.length) {
    insert_window(w.newest.front());
    if (options_.online && w.steps % options_.length == 0) {
      queue_.push_back(w.newest.front());
    }
  }
  ++w.steps;
  if (is_first) {
    limit_memory();
  }
}

void Replay::insert_window(const StepId& start) {
  while (options_.capacity > 0 && static_cast<int64_t>(starts_.size()) >= options_.capacity) {
    erase_oldest();
  }
  const int64_t window = next_window_++;
  starts_[window] = start;
  ++uses_.at(start.chunk);
  selector_->insert(window, steps_from(start));
}

void Replay::erase_oldest() {
  const auto [window, start] = *starts_.begin();
  selector_->erase(window);
  starts_.erase(starts_.begin());
  release(start.chunk);
}

std::vector<StepId> Replay::steps_from(StepId start) const {
  std::vector<StepId> steps;
  while (static_cast<int64_t>(steps.size()) < options_.length) {
    const Chunk& chunk = chunks_.at(start.chunk);
    if (static_cast<int64_t>(start.index) == chunk.length()) {
      check(chunk.successor() != 0, "[replay] a window goes beyond the last step");
      start = {.chunk = chunk.successor(), .index = 0};
      continue;
    }
    steps.push_back(start);
    ++start.index;
  }
  return steps;
}

void Replay::copy_row(Arrays& out, int64_t row, int64_t rows, const StepId& start) const {
  const std::vector<StepId> steps = steps_from(start);
  const auto length = static_cast<int64_t>(steps.size());
  if (out.empty()) {
    for (const auto& [name, part] : chunks_.at(start.chunk).layout()->parts()) {
      Shape shape = part.shape;
      shape.dims.insert(shape.dims.begin(), {rows, length});
      out[name] = HostArray(shape);
    }
    out[kStepId] = HostArray(Shape{DType::U8, {rows, length, StepId::kBytes}});
  }
  for (auto& [name, value] : out) {
    const size_t bytes = value.bytes.size() / static_cast<size_t>(rows * length);
    std::byte* place = value.bytes.data() + static_cast<size_t>(row * length) * bytes;
    for (const StepId& step : steps) {
      if (name == kStepId) {
        const auto id = step.bytes();
        std::memcpy(place, id.data(), bytes);
      } else {
        const Chunk& chunk = chunks_.at(step.chunk);  // const: only read
        std::memcpy(place, chunk.at(name, step.index).data(), bytes);
      }
      place += bytes;
    }
  }
}

StepId Replay::next_start(bool training) {
  while (training && !queue_.empty()) {
    const StepId start = queue_.front();
    queue_.pop_front();
    if (chunks_.contains(start.chunk)) {
      return start;
    }
  }
  return starts_.at(selector_->sample());
}

Arrays Replay::sample(int64_t rows, bool training) {
  const std::scoped_lock lock(mutex_);
  Arrays out;
  for (int64_t row = 0; row < rows; ++row) {
    copy_row(out, row, rows, next_start(training));
  }
  mark_ends(out);
  return out;
}

void Replay::update(const HostArray& stepid, const Arrays& values) {
  const std::vector<StepId> ids = ids_of(stepid);
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, value] : values) {
    const size_t bytes = value.bytes.size() / ids.size();
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto chunk = chunks_.find(ids[i].chunk);
      if (chunk == chunks_.end()) {
        continue;
      }
      const std::span<std::byte> place = chunk->second.at(name, ids[i].index);
      check(place.size() == bytes, "[replay] `{}` is {} for {} steps, which have {} bytes each",
            name, to_string(value.shape), ids.size(), place.size());
      std::memcpy(place.data(), value.bytes.data() + i * bytes, bytes);
    }
  }
}

void Replay::prioritize(const HostArray& stepid, const HostArray& priorities) {
  const std::span<const float> given = priorities.as<float>();
  const std::vector<double> wide(given.begin(), given.end());
  const std::scoped_lock lock(mutex_);
  selector_->prioritize(ids_of(stepid), wide);
}

int64_t Replay::windows() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int64_t>(starts_.size());
}

int64_t Replay::chunks() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int64_t>(chunks_.size());
}

std::vector<StepId> Replay::starts() const {
  const std::scoped_lock lock(mutex_);
  std::vector<StepId> out;
  for (const auto& [window, start] : starts_) {
    out.push_back(start);
  }
  return out;
}

std::vector<StepId> Replay::queued() const {
  const std::scoped_lock lock(mutex_);
  return {queue_.begin(), queue_.end()};
}

Arrays Replay::window(const StepId& start) const {
  const std::scoped_lock lock(mutex_);
  Arrays out;
  copy_row(out, 0, 1, start);
  for (auto& [name, value] : out) {
    value.shape.dims.erase(value.shape.dims.begin());
  }
  return out;
}

}  // namespace kinema::replay
