#include <fmt/format.h>
#include <algorithm>

#include "kinema/agents/train_run.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/safetensors.h"

// A checkpoint: agent.safetensors; replay/index.safetensors and a file for each chunk of replay
// that is in memory, while those on the disk stay in the run's own folder;
// environments.N.safetensors, the state of group N and what the agent remembers of it; and
// counts.json.
namespace kinema::agents {
namespace fs = std::filesystem;
namespace {

void write_arrays(const fs::path& file, const replay::Arrays& arrays) {
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, array] : arrays) {
    entries.push_back(io::TensorEntry::of(name, array));
  }
  io::write_safetensors(file, entries);
}

replay::Arrays read_arrays(const fs::path& path) {
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  replay::Arrays out;
  for (const io::TensorView& view : file.tensors()) {
    out[view.name] = view.copy();
  }
  return out;
}

std::string chunk_file(uint64_t number) { return fmt::format("chunk-{}.safetensors", number); }
std::string group_file(size_t number) { return fmt::format("environments.{}.safetensors", number); }

}  // namespace

void TrainRun::save() {
  since_save_.restart();
  if (saved_step_ == counts_.step) {
    return;
  }
  const Stopwatch watch;
  checkpoints_.write(counts_.step, [&](const fs::path& folder) { write_checkpoint(folder); });
  replay_->drop_released();
  saved_step_ = counts_.step;
  job_.line(fmt::format("checkpoint of step {} saved in {:.1f} s", counts_.step, watch.seconds()));
}

void TrainRun::write_checkpoint(const fs::path& folder) {
  if (learner_) {
    learner_->save(folder / kAgentFile);
  }
  fs::create_directories(folder / "replay");
  write_arrays(folder / "replay" / "index.safetensors", replay_->index());
  replay_->sync();
  for (const uint64_t number : replay_->chunk_numbers()) {
    if (const replay::Arrays chunk = replay_->chunk(number); !chunk.empty()) {
      write_arrays(folder / "replay" / chunk_file(number), chunk);
    }
  }
  for (size_t i = 0; i < drivers_.size(); ++i) {
    write_arrays(folder / group_file(i), drivers_[i]->state());
  }
  io::Json last = io::Json::array();
  for (const Scored& episode : last_episodes_) {
    last.append(io::Json::array({episode.step, episode.score, episode.length}));
  }
  io::Json counts = io::Json::object({{"step", counts_.step},
                                      {"updates", learner_ ? learner_->updates() : 0},
                                      {"calls", counts_.calls},
                                      {"episodes", counts_.episodes},
                                      {"due", counts_.due},
                                      {"next_driver", counts_.next_driver},
                                      {"last_episodes", last}});
  if (const std::optional<double> done = ratio_.done_to()) {
    counts.set("trained_to_step", *done);
  }
  io::write_file(folder / "counts.json", counts.dump());
}

bool TrainRun::restore(const fs::path& folder) {
  const io::Json counts = io::Json::read(folder / "counts.json");
  counts_ = {.step = counts.at("step").as_int(),
             .calls = counts.at("calls").as_int(),
             .episodes = counts.at("episodes").as_int(),
             .due = counts.at("due").as_int(),
             .next_driver = counts.at("next_driver").as_int()};
  check(counts_.next_driver >= 0 && counts_.next_driver < std::ssize(drivers_),
        "[agents] the checkpoint has more groups of environments than {} (run.env_groups)",
        drivers_.size());
  for (const io::Json& episode : counts.at("last_episodes").items()) {
    check(episode.items().size() == 3, "[agents] {} is not a step, a score and a length",
          episode.where());
    last_episodes_.push_back({episode.items()[0].as_int(), episode.items()[1].as_number(),
                              episode.items()[2].as_number()});
  }
  const io::Json* trained = counts.find("trained_to_step");
  ratio_.restore(trained == nullptr ? std::nullopt : std::optional<double>(trained->as_number()));
  if (learner_) {
    learner_->restore(folder / kAgentFile);
  }
  job_.notice(replay_->restore(
      read_arrays(folder / "replay" / "index.safetensors"),
      [&](uint64_t number) { return read_arrays(folder / "replay" / chunk_file(number)); }));
  bool is_complete = true;
  for (size_t i = 0; i < drivers_.size(); ++i) {
    is_complete = drivers_[i]->restore(read_arrays(folder / group_file(i))) && is_complete;
  }
  return is_complete;
}

}  // namespace kinema::agents
