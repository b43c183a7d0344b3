#include "kinema/environments/environment_server.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/core/printable.h"

namespace kinema::environments {
namespace {

constexpr int64_t kProtocol = 1;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

/// A record: shared with a process of this host, or this process's own.
class EnvironmentServer::Memory {
 public:
  explicit Memory(bool is_shared) {
    if (is_shared) {
      file_ = io::Descriptor(memfd_create("kinema-environments", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      check(static_cast<bool>(file_), "[environments] no shared memory could be made: {}",
            errno_text(errno));
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (mapped_ != MAP_FAILED) {
      munmap(mapped_, bytes_.size());
    }
  }

  const io::Descriptor& file() const { return file_; }
  std::span<std::byte> bytes() const { return bytes_; }

  void resize(int64_t size) {
    const auto count = static_cast<size_t>(size);
    if (!file_) {
      own_.resize(count);
      bytes_ = own_;
      return;
    }
    // Sealed, because a file that another process truncates is a SIGBUS here.
    check(ftruncate(file_.get(), size) == 0 &&
              fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0,
          "[environments] {} bytes of shared memory could not be had: {}", size, errno_text(errno));
    mapped_ = mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    check(mapped_ != MAP_FAILED, "[environments] {} bytes of shared memory could not be mapped: {}",
          size, errno_text(errno));
    bytes_ = {static_cast<std::byte*>(mapped_), count};
  }

 private:
  io::Descriptor file_;
  void* mapped_ = MAP_FAILED;
  std::vector<std::byte> own_;
  std::span<std::byte> bytes_;
};

EnvironmentServer::EnvironmentServer(const GroupOptions& options, const Served& served,
                                     int64_t restarts, double start_seconds)
    : options_(options), served_(served) {
  const Deadline deadline = deadline_in(start_seconds);
  open_connection(deadline);
  try {
    if (!options_.address.empty()) {
      present_token(deadline);
    }
    describe(restarts, deadline);
  } catch (const ServerLost& error) {
    fail_lost(error);
  }
}

EnvironmentServer::~EnvironmentServer() = default;

void EnvironmentServer::open_connection(Deadline deadline) {
  memory_ = std::make_unique<Memory>(options_.address.empty());
  if (options_.address.empty()) {
    process_.emplace(options_.python, memory_->file());
    connection_.emplace(process_->take_socket(), process_->take_printed(), options_.output);
  } else {
    connection_.emplace(connect_to_server(options_.address, deadline), io::Descriptor(), "");
  }
}

void EnvironmentServer::present_token(Deadline deadline) {
  const io::Json token = io::Json::object({{"token", options_.token}});
  connection_->send(bytes_of(token.dump(-1) + "\n"), deadline);
  const io::Json answer = reply(deadline);
  if (const io::Json* error = answer.find("error")) {
    fail("[environments] {} refuses this group: {}\n  its --token-file has the token to give",
         options_.address, printable_line(error->as_string()));
  }
}

void EnvironmentServer::describe(int64_t restarts, Deadline deadline) {
  // The sign bit is left out of the seed: JSON integers are signed here.
  const io::Json request = io::Json::object({
      {"protocol", kProtocol},
      {"task", options_.task},
      {"count", served_.count},
      {"first", options_.first + served_.first},
      {"seed", static_cast<int64_t>(options_.seed & (~uint64_t{0} >> 1))},
      {"restarts", restarts},
      {"settings", options_.settings.empty() ? io::Json::object()
                                             : io::Json::parse(options_.settings, "settings")},
  });
  connection_->send(bytes_of(request.dump(-1) + "\n"), deadline);
  const io::Json answer = reply(deadline);
  if (answer.contains("error")) {
    fail_as_told(answer);
  }
  spaces_ = ServedSpaces::read(answer, options_.task);
  layout_.emplace(spaces_, served_.count, options_.task);
  memory_->resize(layout_->bytes);
  const io::Json layout = io::Json::object({{"layout", layout_->json()}});
  connection_->send(bytes_of(layout.dump(-1) + "\n"), deadline);
}

io::Json EnvironmentServer::reply(Deadline deadline) {
  return io::Json::parse(connection_->line(deadline),
                         fmt::format("[environments] the reply of envs.py for {}", options_.task));
}

void EnvironmentServer::fail_as_told(const io::Json& reply) const {
  const std::string text = printable_line(reply.at("error").as_string());
  if (const io::Json* which = reply.find("environment")) {
    fail("[environments] {}: environment {}: {}", options_.task, served_.first + which->as_int(),
         text);
  }
  fail("[environments] {}: {}", options_.task, text);
}

void EnvironmentServer::fail_lost(const ServerLost& error) {
  const std::string how = process_ ? fmt::format(" ({})", process_->end()) : "";
  const std::string printed = printable_line(connection_->last_printed());
  throw ServerLost(
      fmt::format("{}{}{}{}", error.what(), how, printed.empty() ? "" : ": ", printed));
}

std::span<std::byte> EnvironmentServer::part(int64_t offset, int64_t bytes) const {
  return memory_->bytes().subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

void EnvironmentServer::begin(const Arrays& actions, std::span<const uint8_t> reset) {
  deadline_ = deadline_in(options_.step_timeout_seconds);
  const auto first = static_cast<size_t>(served_.first);
  for (const auto& [name, space] : spaces_.actions) {
    const auto bytes = static_cast<size_t>(Shape{space.dtype, space.shape}.bytes());
    std::memcpy(part(layout_->actions.at(name), 0).data(),
                actions.at(name).bytes.data() + first * bytes,
                static_cast<size_t>(served_.count) * bytes);
  }
  std::memcpy(part(layout_->reset, 0).data(), reset.data() + first,
              static_cast<size_t>(served_.count));
  constexpr std::array kStep{std::byte{'s'}};
  try {
    connection_->send(kStep, deadline_);
    if (!process_) {
      connection_->send(part(0, layout_->replies), deadline_);
    }
  } catch (const ServerLost& error) {
    fail_lost(error);
  }
}

void EnvironmentServer::end(GroupSteps& out) {
  std::array<std::byte, 1> status{};
  try {
    connection_->receive(status, deadline_);
    if (status[0] == std::byte{'e'}) {
      fail_as_told(reply(deadline_));
    }
    check(status[0] == std::byte{'k'},
          "[environments] {}: envs.py replied with the byte {}, expected `k` or `e`\n  it sends "
          "more than a record: use the envs.py of this version of kinema",
          options_.task, std::to_integer<int>(status[0]));
    if (!process_) {
      connection_->receive(part(layout_->replies, layout_->bytes - layout_->replies), deadline_);
    }
  } catch (const ServerLost& error) {
    fail_lost(error);
  }
  const auto copy = [&](int64_t offset, void* to, size_t bytes) {
    const auto row = static_cast<size_t>(served_.first);
    const auto count = static_cast<size_t>(served_.count);
    std::memcpy(static_cast<std::byte*>(to) + row * bytes, part(offset, 0).data(), count * bytes);
  };
  for (const auto& [name, space] : spaces_.observations) {
    copy(layout_->observations.at(name), out.observations.at(name).bytes.data(),
         static_cast<size_t>(Shape{space.dtype, space.shape}.bytes()));
  }
  copy(layout_->reward, out.reward.data(), sizeof(float));
  copy(layout_->is_first, out.is_first.data(), 1);
  copy(layout_->is_last, out.is_last.data(), 1);
  copy(layout_->is_terminal, out.is_terminal.data(), 1);
  for (const std::string& name : spaces_.log) {
    copy(layout_->log.at(name), out.log.at(log_name(name)).bytes.data(), sizeof(float));
  }
  const std::span<const std::byte> again = part(layout_->restarted, served_.count);
  for (size_t i = 0; i < again.size(); ++i) {
    out.log.at("restarts").as<float>()[static_cast<size_t>(served_.first) + i] =
        again[i] == std::byte{0} ? 0.0F : 1.0F;
  }
}

}  // namespace kinema::environments
