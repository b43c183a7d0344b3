#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace kinema::world {

/// A message under way. One that is dropped before it is done is given up.
class Pending {
 public:
  virtual ~Pending() = default;
  /// True once the bytes are there, or no longer needed by the sender. Never waits.
  virtual bool done() = 0;
};

/// What carries bytes between the processes of a run. Any thread may call; nothing waits.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// `Open MPI 4.1.4`
  virtual std::string name() const = 0;

  /// Messages of one channel do not meet those of another. All processes open theirs in the same
  /// order; returns when all have.
  virtual int open_channel() = 0;
  /// The bytes stay where they are until the message is done. Messages of one channel and tag
  /// between two processes arrive in the order in which they were sent. Tags are below 2^30.
  virtual std::unique_ptr<Pending> send(int channel, std::span<const std::byte> bytes, int64_t to,
                                        int tag) = 0;
  virtual std::unique_ptr<Pending> receive(int channel, std::span<std::byte> bytes, int64_t from,
                                           int tag) = 0;

  /// A key and value that every process may then ask for; keys are put once.
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// Nothing when no process has put it yet.
  virtual std::optional<std::string> get(const std::string& key) = 0;
};

/// The name under which a module of an engine is found when it is loaded; returns a new
/// `Engine*`, or null with the reason in `error`. A module is built with the program that loads it.
inline constexpr const char* kEngineSymbol = "kinema_world_engine";
using MakeEngine = Engine* (*)(std::string* error);

}  // namespace kinema::world
