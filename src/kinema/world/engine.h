#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kinema::world {

/// Immutable bytes. Copies share them; their address is fixed while a copy exists.
class Message {
 public:
  Message() = default;
  /// `owner` keeps the bytes alive.
  Message(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}
  static Message copy_of(std::span<const std::byte> bytes);
  static Message copy_of(std::string_view text) {
    return copy_of(std::as_bytes(std::span(text.data(), text.size())));
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  std::string text() const { return {reinterpret_cast<const char*>(bytes_.data()), size()}; }
  /// A range of the bytes, which keeps all of them alive.
  Message part(size_t offset, size_t size) const { return {owner_, bytes_.subspan(offset, size)}; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

/// A message that is being sent or received. The engine owns its memory, so it may be destroyed at
/// any time: a send then still arrives, a receive is cancelled.
class Pending {
 public:
  virtual ~Pending() = default;
  /// True when the message has been received, or handed to the network. Never blocks. Throws an
  /// Error if that can no longer happen.
  virtual bool done() = 0;
  /// The received message, when done; empty for a send.
  virtual Message message() const { return {}; }
};

/// The transport between the processes of a run. Thread-safe; no call blocks unless stated.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// `Open MPI 4.1.4`
  virtual std::string name() const = 0;

  /// A new channel; messages of different channels are never matched. All processes open theirs in
  /// the same order; blocks until all have.
  virtual int open_channel() = 0;
  /// Messages of one channel and tag between two processes arrive in the order of sending. Tags are
  /// below 2^30.
  virtual std::unique_ptr<Pending> send(int channel, Message message, int64_t to, int tag) = 0;
  /// Receives a message of `bytes` bytes; for another size, `done` throws.
  virtual std::unique_ptr<Pending> receive(int channel, size_t bytes, int64_t from, int tag) = 0;

  /// Stores a key and value that every process can get; each key is put once.
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// Nothing if no process has put the key yet.
  virtual std::optional<std::string> get(const std::string& key) = 0;
};

/// The symbol of an engine in a loadable module; returns a new `Engine*`, or null with the reason
/// in `error`. A module is built together with the program that loads it.
inline constexpr const char* kEngineSymbol = "kinema_world_engine";
using MakeEngine = Engine* (*)(std::string* error);

}  // namespace kinema::world
