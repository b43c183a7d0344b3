#include "kinema/world/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"

namespace kinema::world {
namespace {

// Tags of the channel.
constexpr int kLength = 0;
constexpr int kText = 1;

using Messages = std::vector<std::unique_ptr<Pending>>;

Message message_of(uint64_t value) { return Message::copy_of(std::as_bytes(std::span(&value, 1))); }

uint64_t number_in(const Message& message) {
  uint64_t out = 0;
  std::memcpy(&out, message.bytes().data(), sizeof out);
  return out;
}

/// Encodes a list of texts as one text.
std::string packed(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    const uint64_t length = text.size();
    out.append(reinterpret_cast<const char*>(&length), sizeof length);
    out += text;
  }
  return out;
}

std::vector<std::string> unpacked(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    uint64_t length = 0;
    check(text.size() >= sizeof length, "[world] process 0 sent a list that is cut off");
    std::memcpy(&length, text.data(), sizeof length);
    text.remove_prefix(sizeof length);
    check(length <= text.size(), "[world] process 0 sent a list that is cut off");
    out.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

/// Waits for messages, with pauses that start short: an exchange of small texts takes less than a
/// millisecond if all processes arrive at the same time, and a long wait (for a compiler) costs
/// nothing.
class Communicator::Deadline {
 public:
  Deadline(const Communicator& own, const Wait& wait) : own_(own), wait_(wait) {}

  /// `from`: the sender of each message.
  void wait(const Messages& messages, const std::vector<int64_t>& from) {
    std::vector<bool> done(messages.size());
    for (auto pause = std::chrono::microseconds(20); !std::ranges::all_of(done, std::identity());
         pause = std::min(pause * 5 / 4, std::chrono::microseconds(10000))) {
      bool any = false;
      for (size_t i = 0; i < messages.size(); ++i) {
        if (!done[i] && messages[i]->done()) {
          done[i] = any = true;
        }
      }
      if (any) {
        pause = std::chrono::microseconds(20);
        continue;
      }
      const std::string failure = own_.failed_ ? own_.failed_() : "";
      check(failure.empty(), "{}", failure);
      if (watch_.seconds() > wait_.seconds) {
        std::vector<int64_t> missing;
        for (size_t i = 0; i < from.size(); ++i) {
          if (!done[i]) {
            missing.push_back(from[i]);
          }
        }
        fail("[world] {} did not arrive at {} within {:g} s", ranks_text(missing), wait_.what,
             wait_.seconds);
      }
      std::this_thread::sleep_for(pause);
    }
  }

 private:
  const Communicator& own_;
  const Wait& wait_;
  Stopwatch watch_;
};

Communicator::Communicator(std::shared_ptr<Engine> engine, std::function<std::string()> failed)
    : engine_(std::move(engine)),
      rank_(engine_->rank()),
      size_(engine_->size()),
      failed_(std::move(failed)),
      channel_(engine_->open_channel()) {}

std::vector<std::string> Communicator::collect(std::string_view own, const Wait& wait) {
  if (rank() != 0) {
    send_to({0}, own, wait);
    return {};
  }
  Deadline deadline(*this, wait);
  std::vector<std::string> texts(static_cast<size_t>(size()));
  texts[0] = own;
  std::vector<int64_t> others;
  Messages messages;
  for (int64_t from = 1; from < size(); ++from) {
    others.push_back(from);
    messages.push_back(engine_->receive(channel_, sizeof(uint64_t), from, kLength));
  }
  deadline.wait(messages, others);
  for (size_t i = 0; i < others.size(); ++i) {
    messages[i] = engine_->receive(channel_, number_in(messages[i]->message()), others[i], kText);
  }
  deadline.wait(messages, others);
  for (size_t i = 0; i < others.size(); ++i) {
    texts[static_cast<size_t>(others[i])] = messages[i]->message().text();
  }
  return texts;
}

void Communicator::send_to(const std::vector<int64_t>& others, std::string_view text,
                           const Wait& wait) {
  Deadline deadline(*this, wait);
  const Message length = message_of(text.size());
  const Message shared = Message::copy_of(text);
  Messages messages;
  std::vector<int64_t> to;
  for (const int64_t other : others) {
    messages.push_back(engine_->send(channel_, length, other, kLength));
    messages.push_back(engine_->send(channel_, shared, other, kText));
    to.insert(to.end(), 2, other);
  }
  deadline.wait(messages, to);
}

std::string Communicator::hand_out(std::string_view text, const Wait& wait) {
  if (rank() != 0) {
    return receive(0, wait);
  }
  std::vector<int64_t> others(static_cast<size_t>(size() - 1));
  std::iota(others.begin(), others.end(), 1);
  send_to(others, text, wait);
  return std::string(text);
}

std::vector<std::string> Communicator::gather(std::string_view own, const Wait& wait) {
  if (size() == 1) {
    return {std::string(own)};
  }
  const std::vector<std::string> all = collect(own, wait);
  return unpacked(hand_out(packed(all), wait));
}

std::string Communicator::broadcast(std::string_view of_first, const Wait& wait) {
  if (size() == 1) {
    return std::string(of_first);
  }
  return hand_out(of_first, wait);
}

void Communicator::barrier(const Wait& wait) { gather("", wait); }

void Communicator::send(std::string_view text, int64_t to, const Wait& wait) {
  check(to != rank() && to >= 0 && to < size(), "[world] process {} sends to process {} of {}",
        rank(), to, size());
  send_to({to}, text, wait);
}

std::string Communicator::receive(int64_t from, const Wait& wait) {
  check(from != rank() && from >= 0 && from < size(),
        "[world] process {} receives from process {} of {}", rank(), from, size());
  Deadline deadline(*this, wait);
  Messages messages;
  messages.push_back(engine_->receive(channel_, sizeof(uint64_t), from, kLength));
  deadline.wait(messages, {from});
  messages[0] = engine_->receive(channel_, number_in(messages[0]->message()), from, kText);
  deadline.wait(messages, {from});
  return messages[0]->message().text();
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  if (ranks.size() == 1) {
    return fmt::format("process {}", ranks.front());
  }
  const bool in_a_row =
      !ranks.empty() && ranks.back() - ranks.front() + 1 == static_cast<int64_t>(ranks.size());
  if (in_a_row && ranks.size() > 2) {
    return fmt::format("processes {} to {}", ranks.front(), ranks.back());
  }
  std::string out = "processes ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  }
  return out;
}

}  // namespace kinema::world
