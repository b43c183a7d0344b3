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

/// Bytes that nobody changes any more. Copies share them; they stay where they are while one lives.
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
  /// Some of the bytes, which keep all of them alive.
  Message part(size_t offset, size_t size) const { return {owner_, bytes_.subspan(offset, size)}; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

/// A message that is being sent or received. Its memory belongs to the engine, so that it may be
/// dropped at any time: what is sent still arrives, what was to be received is given up.
class Pending {
 public:
  virtual ~Pending() = default;
  /// True once the message has come, or has been handed to the network. Never waits. Throws an
  /// Error when it never will.
  virtual bool done() = 0;
  /// What has come, once it is done; empty for what is sent.
  virtual Message message() const { return {}; }
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
  /// Messages of one channel and tag between two processes arrive in the order in which they were
  /// sent. Tags are below 2^30.
  virtual std::unique_ptr<Pending> send(int channel, Message message, int64_t to, int tag) = 0;
  /// A message of `bytes` bytes; one of another size is an error of `done`.
  virtual std::unique_ptr<Pending> receive(int channel, size_t bytes, int64_t from, int tag) = 0;

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
