#include "kinema/cluster/exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <iterator>
#include <set>
#include <utility>

#include "kinema/cluster/collective.h"
#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/trace.h"

namespace kinema::cluster {

using pjrt::CollectiveCall;
using Kind = CollectiveCall::Kind;

/// One execution of one collective in this process.
class Exchange::Meeting {
 public:
  Meeting(std::shared_ptr<const SharedProgram> program, size_t site)
      : program_(std::move(program)), site_(site) {}

  /// True when all devices of this process have arrived.
  bool add(Arrival arrival) {
    const int64_t partition = arrival.partition;
    here_.emplace(partition, std::move(arrival));
    return here_.size() == program_->partition_of.size();
  }

  void begin(world::Engine* engine, int channel) {
    if (call().kind == Kind::COLLECTIVE_PERMUTE) {
      begin_permute(engine, channel);
      return;
    }
    for (const std::vector<int64_t>& group : call().groups) {
      if (std::ranges::any_of(group, [&](int64_t p) { return here_.contains(p); })) {
        for (size_t operand = 0; operand < call().operands.size(); ++operand) {
          begin_group(engine, channel, group, operand);
        }
      }
    }
  }

  bool all_there() {
    std::erase_if(sent_, [](const std::unique_ptr<world::Pending>& each) { return each->done(); });
    for (; there_ < received_.size() && received_[there_].message->done(); ++there_) {
      received_[there_].arrived(received_[there_].message->message().bytes());
    }
    return sent_.empty() && there_ == received_.size();
  }

  void finish() {
    for (const Group& each : groups_) {
      finish_group(each);
    }
  }

  /// After this call, the program's memory is neither read nor written.
  void end(const std::string& error) {
    for (auto& [partition, arrival] : std::exchange(here_, {})) {
      arrival.done(error);
    }
  }

 private:
  /// An operand at all members of a group.
  struct Group {
    const std::vector<int64_t>* members;
    size_t operand;
    Parts parts;
  };

  /// A message with the action when it arrives; its bytes stay until the end.
  struct Receiving {
    std::unique_ptr<world::Pending> message;
    std::function<void(Bytes)> arrived;
  };

  const CollectiveCall& call() const { return program_->calls[site_]; }
  int64_t process_of(int64_t partition) const {
    return program_->process_of[static_cast<size_t>(partition)];
  }
  int tag(size_t operand, int64_t partition) const {
    return program_->tags[site_] + static_cast<int>(operand * program_->process_of.size()) +
           static_cast<int>(partition);
  }
  void send(world::Engine* engine, int channel, Bytes bytes, const std::set<int64_t>& to, int tag) {
    const world::Message message = to.empty() ? world::Message() : world::Message::copy_of(bytes);
    for (const int64_t process : to) {
      sent_.push_back(engine->send(channel, message, process, tag));
    }
  }
  void begin_group(world::Engine* engine, int channel, const std::vector<int64_t>& members,
                   size_t operand) {
    std::set<int64_t> others;
    const Arrival* some = nullptr;
    for (const int64_t member : members) {
      if (const auto found = here_.find(member); found != here_.end()) {
        some = &found->second;
      } else {
        others.insert(process_of(member));
      }
    }
    Group group{&members, operand, {}};
    const size_t bytes = some->operands.at(operand).size();
    for (const int64_t member : members) {
      if (const auto found = here_.find(member); found != here_.end()) {
        const Bytes own = found->second.operands.at(operand);
        group.parts.push_back(own);
        send(engine, channel, own, others, tag(operand, member));
      } else {
        group.parts.emplace_back();  // until it arrives
        received_.push_back(
            {.message = engine->receive(channel, bytes, process_of(member), tag(operand, member)),
             .arrived = [this, place = std::pair(groups_.size(), group.parts.size() - 1)](
                            Bytes part) { groups_[place.first].parts[place.second] = part; }});
      }
    }
    groups_.push_back(std::move(group));
  }

  void begin_permute(world::Engine* engine, int channel) {
    std::set<int64_t> targets;
    for (size_t operand = 0; operand < call().operands.size(); ++operand) {
      for (const auto& [from, to] : call().pairs) {
        targets.insert(to);
        const auto source = here_.find(from);
        const auto target = here_.find(to);
        if (source != here_.end() && target != here_.end()) {
          const Bytes bytes = source->second.operands.at(operand);
          std::memcpy(target->second.results.at(operand).data(), bytes.data(), bytes.size());
        } else if (source != here_.end()) {
          send(engine, channel, source->second.operands.at(operand), {process_of(to)},
               tag(operand, to));
        } else if (target != here_.end()) {
          const std::span<std::byte> result = target->second.results.at(operand);
          received_.push_back({.message = engine->receive(channel, result.size(), process_of(from),
                                                          tag(operand, to)),
                               .arrived = [result](Bytes bytes) {
                                 std::memcpy(result.data(), bytes.data(), bytes.size());
                               }});
        }
      }
    }
    for (auto& [partition, arrival] : here_) {
      if (!targets.contains(partition)) {  // devices that receive nothing get zeros
        for (const std::span<std::byte> result : arrival.results) {
          std::ranges::fill(result, std::byte{});
        }
      }
    }
  }

  /// The members of a group in this process, with their positions in it.
  template <typename Visit>
  void for_each_here(const Group& group, const Visit& visit) {
    for (size_t place = 0; place < group.members->size(); ++place) {
      if (const auto found = here_.find((*group.members)[place]); found != here_.end()) {
        visit(place, found->second);
      }
    }
  }

  void finish_group(const Group& group) {
    const CollectiveCall::Operand& operand = call().operands[group.operand];
    switch (call().kind) {
      case Kind::ALL_REDUCE:
      case Kind::REDUCE_SCATTER: {
        std::vector<std::byte> sum(group.parts.front().begin(), group.parts.front().end());
        for (size_t i = 1; i < group.parts.size(); ++i) {
          reduce_into(sum, group.parts[i], here_.begin()->second.dtype, call().reduction);
        }
        for_each_here(group, [&](size_t place, Arrival& arrival) {
          const std::span<std::byte> result = arrival.results.at(group.operand);
          if (call().kind == Kind::ALL_REDUCE) {
            std::memcpy(result.data(), sum.data(), sum.size());
          } else {
            take_piece(sum, operand, group.parts.size(), place, result);
          }
        });
        break;
      }
      case Kind::ALL_GATHER:
        for_each_here(group, [&](size_t, Arrival& arrival) {
          all_gather(group.parts, operand, arrival.results.at(group.operand));
        });
        break;
      case Kind::ALL_TO_ALL:
        for_each_here(group, [&](size_t place, Arrival& arrival) {
          all_to_all(group.parts, operand, place, arrival.results.at(group.operand));
        });
        break;
      case Kind::EXCHANGE:  // operand i is for member i, whose result j is of member j
        for_each_here(group, [&](size_t place, Arrival& arrival) {
          if (place == group.operand) {
            for (size_t from = 0; from < group.parts.size(); ++from) {
              std::memcpy(arrival.results.at(from).data(), group.parts[from].data(),
                          group.parts[from].size());
            }
          }
        });
        break;
      case Kind::COLLECTIVE_PERMUTE:
        break;
    }
  }

  std::shared_ptr<const SharedProgram> program_;
  size_t site_;
  std::map<int64_t, Arrival> here_;  // by partition
  std::vector<Group> groups_;
  std::vector<std::unique_ptr<world::Pending>> sent_;
  std::vector<Receiving> received_;  // in the order of processing
  size_t there_ = 0;                 // how many have arrived
};

Exchange::Exchange(std::shared_ptr<world::Engine> engine, std::function<std::string()> failed)
    : engine_(std::move(engine)),
      failed_(std::move(failed)),
      channel_(engine_ ? engine_->open_channel() : 0),
      worker_(start_thread([this] { work(); }, [](const std::exception_ptr&) {})) {}

Exchange::~Exchange() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  some_.notify_one();
  worker_.join();
}

void Exchange::arrive(const std::shared_ptr<const SharedProgram>& program, size_t site,
                      Arrival arrival) {
  std::unique_lock lock(mutex_);
  if (!error_.empty()) {
    const std::string error = error_;
    lock.unlock();
    arrival.done(error);
    return;
  }
  std::unique_ptr<Meeting>& meeting = gathering_[{program->number, site}];
  if (!meeting) {
    meeting = std::make_unique<Meeting>(program, site);
  }
  if (meeting->add(std::move(arrival))) {
    complete_.push_back(std::move(meeting));
    gathering_.erase({program->number, site});
  }
  some_.notify_one();
}

std::atomic<int64_t>& nanoseconds_waited() {
  static std::atomic<int64_t> all = 0;
  return all;
}

/// True if a collective ended.
bool Exchange::advance(std::vector<std::unique_ptr<Meeting>>& active) {
  const std::string failure = failed_ ? failed_() : "";
  if (!failure.empty()) {  // devices with an error do not arrive at their next collectives
    const std::lock_guard lock(mutex_);
    take_gathering(active);
  }
  return std::erase_if(active, [&](const std::unique_ptr<Meeting>& each) {
           std::string error = failure;
           try {
             if (error.empty()) {
               if (!each->all_there()) {
                 return false;
               }
               each->finish();
             }
           } catch (const std::exception& caught) {
             error = caught.what();
           }
           each->end(error);
           return true;
         }) > 0;
}

void Exchange::take_gathering(std::vector<std::unique_ptr<Meeting>>& into) {
  for (auto& [place, meeting] : std::exchange(gathering_, {})) {
    into.push_back(std::move(meeting));
  }
}

void Exchange::serve(std::vector<std::unique_ptr<Meeting>>& active) {
  // MPI cannot be waited on: pauses start short and grow while the others compute.
  constexpr std::chrono::microseconds kShortest(20);
  constexpr std::chrono::microseconds kLongest(500);
  constexpr std::chrono::milliseconds kFailure(50);  // when only a failure can arrive
  std::chrono::microseconds pause = kShortest;
  for (;;) {
    std::vector<std::unique_ptr<Meeting>> begun;
    {
      std::unique_lock lock(mutex_);
      if (active.empty() && gathering_.empty()) {
        some_.wait(lock, [&] { return ends_ || !complete_.empty() || !gathering_.empty(); });
      } else if (active.empty()) {
        some_.wait_for(lock, kFailure, [&] { return ends_ || !complete_.empty(); });
      } else if (complete_.empty()) {
        const auto begin = std::chrono::steady_clock::now();
        some_.wait_for(lock, pause);
        nanoseconds_waited() += (std::chrono::steady_clock::now() - begin).count();
      }
      if (ends_ && complete_.empty() && active.empty()) {
        return;
      }
      begun = std::exchange(complete_, {});
    }
    for (std::unique_ptr<Meeting>& each : begun) {
      try {
        each->begin(engine_.get(), channel_);
        active.push_back(std::move(each));
      } catch (const std::exception& caught) {
        each->end(caught.what());
      }
    }
    pause = advance(active) || !begun.empty() ? kShortest : std::min(pause * 5 / 4, kLongest);
  }
}

/// Errors of this thread must not end the process: the waiting devices get them.
void Exchange::work() {
  trace::name_thread("collectives");
  std::vector<std::unique_ptr<Meeting>> active;
  try {
    serve(active);
  } catch (const std::exception& caught) {
    {
      const std::lock_guard lock(mutex_);
      error_ = caught.what();
      std::ranges::move(std::exchange(complete_, {}), std::back_inserter(active));
      take_gathering(active);
    }
    for (const std::unique_ptr<Meeting>& each : active) {
      if (each) {
        each->end(caught.what());
      }
    }
  }
}

}  // namespace kinema::cluster
