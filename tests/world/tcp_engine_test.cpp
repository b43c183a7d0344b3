// Several engines in one process, each as if in a process of its own.
#include "kinema/world/tcp_engine.h"

#include <gmock/gmock.h>

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <system_error>
#include <thread>
#include <tuple>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/descriptor.h"
#include "kinema/world/communicator.h"
#include "kinema/world/handshake_messages.h"
#include "kinema/world/keys.h"
#include "kinema/world/reliable_channel.h"
#include "kinema/world/tcp_address.h"
#include "kinema/world/tcp_socket.h"
#include "sanitizers.h"
#include "world/tcp_engines.h"

namespace kinema::world {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(TcpEngine, CarriesMessagesOfAnyLengthInOrder) {
  const Engines all = join(3);
  EXPECT_EQ(all[2]->rank(), 2);
  EXPECT_EQ(all[0]->size(), 3);
  EXPECT_THAT(all[1]->name(), HasSubstr("ZeroMQ"));
  const int channel = all[1]->open_channel();
  for (const size_t length : {size_t{0}, size_t{1}, size_t{100000}, size_t{64} << 20}) {
    const std::string first(length, 'a');
    const std::string second(length, 'b');
    all[1]->send(channel, Message::copy_of(first), 2, 7);
    all[1]->send(channel, Message::copy_of(second), 2, 7);
    const auto receives = all[2]->receive(channel, length, 1, 7);
    const auto receives_more = all[2]->receive(channel, length, 1, 7);
    EXPECT_TRUE(text_of(*receives_more) == second && text_of(*receives) == first) << length;
  }
}

TEST(TcpEngine, KeepsSendersTagsAndChannelsApart) {
  const Engines all = join(3);
  const int a = all[0]->open_channel();
  const int b = all[0]->open_channel();
  std::map<std::tuple<int64_t, int, int>, std::unique_ptr<Pending>> receiving;
  for (const int64_t from : {1, 2}) {
    for (const int channel : {a, b}) {
      for (const int tag : {0, 5}) {
        receiving[{from, channel, tag}] = all[0]->receive(channel, 5, from, tag);
      }
    }
  }
  const auto value = [](const std::tuple<int64_t, int, int>& key) {
    return fmt::format("{} {} {}", std::get<0>(key), std::get<1>(key), std::get<2>(key));
  };
  for (const auto& [key, pending] : receiving) {
    const auto [from, channel, tag] = key;
    all[static_cast<size_t>(from)]->send(channel, Message::copy_of(value(key)), 0, tag);
  }
  for (const auto& [key, pending] : receiving) {
    EXPECT_EQ(text_of(*pending), value(key));
  }
}

TEST(TcpEngine, RefusesAMessageOfAnotherLength) {
  const Engines all = join(2);
  all[0]->send(0, Message::copy_of("abc"), 1, 0);
  const auto receives = all[1]->receive(0, 2, 0, 0);
  EXPECT_THAT([&] { text_of(*receives); }, ThrowsMessage<Error>(HasSubstr("3 bytes")));
}

TEST(TcpEngine, AMessageGivenUpIsTheNextOnes) {
  const Engines all = join(2);
  all[1]->receive(0, 1, 0, 0).reset();
  const auto receives = all[1]->receive(0, 1, 0, 0);
  all[0]->send(0, Message::copy_of("x"), 1, 0);
  EXPECT_EQ(text_of(*receives), "x");
}

// A send completes once the network has it, so a sender that waits keeps at most one window in
// memory.
TEST(TcpEngine, ASendWaitsForRoomInTheWindow) {
  const Engines all = join(2);
  const Message large = Message::copy_of(std::string(3 * ReliableChannel::kWindowBytes, 'x'));
  const auto sends = all[0]->send(0, large, 1, 0);
  EXPECT_FALSE(sends->done());
  wait(*sends);
  const auto receives = all[1]->receive(0, large.size(), 0, 0);
  EXPECT_EQ(text_of(*receives), large.text());
}

TEST(TcpEngine, KeysOfAnyProcessReachAll) {
  const Engines all = join(3);
  all[2]->put("a", std::string("1\0"
                               "2",
                               3));
  all[0]->put("b", "");
  Keys keys(all[1]);
  for (const std::shared_ptr<Engine>& each : all) {
    for (const Stopwatch watch; !each->get("a") && watch.seconds() < 20;) {
    }
    EXPECT_EQ(each->get("a"), std::string("1\0"
                                          "2",
                                          3));
    EXPECT_EQ(each->get("b"), "");
    EXPECT_EQ(each->get("c"), std::nullopt);
  }
}

TEST(TcpEngine, NamesMissingProcesses) {
  auto all = start(free_address(), {{0, 4}, {2, 4}}, /*seconds=*/1);
  for (auto& each : all) {
    EXPECT_THAT([&] { each.get(); },
                ThrowsMessage<Error>(AllOf(HasSubstr("processes 1 and 3 did not connect"),
                                           HasSubstr("127.0.0.1:"))));
  }
}

TEST(TcpEngine, NamesTwoWithOneNumberAndOtherCounts) {
  for (auto& each : start(free_address(), {{0, 3}, {1, 3}, {1, 3}})) {
    EXPECT_THAT([&] { each.get(); },
                ThrowsMessage<Error>(HasSubstr("[process_id] two processes have the number 1")));
  }
  for (auto& each : start(free_address(), {{0, 3}, {1, 2}})) {
    EXPECT_THAT([&] { each.get(); },
                ThrowsMessage<Error>(HasSubstr("process 1 was started with 2, process 0 with 3")));
  }
  for (auto& each : start(free_address(), {{0, 2}, {5, 2}})) {
    EXPECT_THAT([&] { each.get(); }, ThrowsMessage<Error>(HasSubstr("the number 5 of 2")));
  }
}

// As when a process is ended while the last one is waited for, and started again.
TEST(TcpEngine, OneThatLeftMayComeAgain) {
  for (const bool is_last : {false, true}) {
    const std::string address = free_address();
    auto first = start(address, {{0, 3}});
    {
      const Stranger gone(address);
      gone.say(to_line(
          HandshakeRequest{.rank = 1, .size = 3, .address = "tcp://127.0.0.1:1", .token = "x"}));
      // The port's owner gives no sign that the request has arrived, so wait.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    auto others = is_last ? start(address, {{2, 3}}) : start(address, {{1, 3}, {2, 3}});
    if (is_last) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      others.push_back(std::move(start(address, {{1, 3}}).front()));
    }
    EXPECT_EQ(first.front().get()->rank(), 0);
    for (auto& each : others) {
      EXPECT_EQ(each.get()->size(), 3);
    }
  }
}

TEST(TcpEngine, NamesAPortThatIsTaken) {
  const std::string address = free_address();
  const Engines all = join(2, address);
  EXPECT_THAT([&] { join_over_tcp({.rank = 0, .size = 2, .coordinator = address}); },
              ThrowsMessage<Error>(AllOf(HasSubstr(address), HasSubstr("in use"))));
  EXPECT_THAT([&] { join_over_tcp({.rank = 1, .size = 2, .coordinator = address, .seconds = 5}); },
              ThrowsMessage<Error>(HasSubstr("have already connected")));
}

#ifndef KINEMA_UNDER_SANITIZER  // which need address space
/// The exception of joining in a process at its limit of threads.
std::string error_without_threads() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t used = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit{.rlim_cur = used + (rlim_t{12} << 20), .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  auto* const others = new std::vector<std::thread>();  // never joined: this process ends
  try {
    for (;;) {
      others->emplace_back([] { std::this_thread::sleep_for(std::chrono::hours(1)); });
    }
  } catch (const std::system_error&) {
    // The limit is reached.
  }
  try {
    join_over_tcp({.rank = 0, .size = 2, .coordinator = free_address(), .seconds = 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// As under a container's limit of threads, where ZeroMQ ends the process.
TEST(TcpEngine, SaysThatItCanMakeNoThreads) {
  EXPECT_EXIT(
      {
        std::fputs(error_without_threads().c_str(), stderr);
        std::_Exit(7);
      },
      testing::ExitedWithCode(7), "this process can make 0 more threads, but ZeroMQ needs about 3");
}
#endif

TEST(TcpEngine, NamesAnInvalidAddress) {
  for (const char* const address : {"", "host", ":1", "host:", "host:x", "host:0", "host:65536",
                                    "::1:80", "a:1x", "0.0.0.0:80", "[::]:80", "*:80"}) {
    EXPECT_THAT(
        [&] { join_over_tcp({.rank = 0, .size = 2, .coordinator = address, .seconds = 1}); },
        ThrowsMessage<Error>(HasSubstr("[coordinator_address]")))
        << address;
  }
  EXPECT_THAT(
      [] {
        join_over_tcp(
            {.rank = 1, .size = 2, .coordinator = "no-such-host.invalid:8476", .seconds = 0.5});
      },
      ThrowsMessage<Error>(HasSubstr("could not be resolved")));
}

TEST(TcpEngine, SaysThatProcess0DoesNotAnswer) {
  std::string told;
  EXPECT_THAT(
      [&] {
        join_over_tcp({.rank = 1,
                       .size = 2,
                       .coordinator = free_address(),
                       .seconds = -4,  // six seconds after process 0 would have given up
                       .on_wait = [&](const std::string& line) { told = line; }});
      },
      ThrowsMessage<Error>(HasSubstr("process 0 did not answer")));
  EXPECT_THAT(told, HasSubstr("waiting for 2 processes"));
}

TEST(TcpEngine, NamesAnotherProgramAtTheAddressOfProcess0) {
  const std::string address = free_address();
  const io::Descriptor listening = listen_everywhere(address.substr(address.find(':') + 1));
  std::atomic<bool> stop = false;
  std::thread server([&] {
    while (!stop) {
      wait_for(listening, std::chrono::milliseconds(20));
      if (const std::optional<io::Descriptor> one = accept_from(listening)) {
        send_all(*one, "HTTP/1.0 400 Bad \x1b[31m request\r\n\r\n",
                 std::chrono::milliseconds(1000));
      }
    }
  });
  std::string told;
  EXPECT_THAT(
      [&] {
        join_over_tcp({.rank = 1,
                       .size = 2,
                       .coordinator = address,
                       .seconds = -8,  // two seconds
                       .on_wait = [&](const std::string& line) { told = line; }});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("another program answers at " + address),
                                 HasSubstr("HTTP/1.0 400"), Not(HasSubstr("\x1b")))));
  stop = true;
  server.join();
  EXPECT_THAT(told, HasSubstr("HTTP/1.0 400"));
}

/// Data that anyone may send to an open port.
std::vector<std::string> garbage() {
  return {
      "\n",
      std::string(3, '\0'),
      std::string(100000, 'x'),
      "{\"kinema\":2}\n",
      "{\"kinema\":2,\"rank\":-1,\"size\":2,\"address\":\"a\",\"token\":\"\"}\n",
      "{\"kinema\":2,\"rank\":18446744073709551615,\"size\":2,\"address\":\"a\",\"token\":\"\"}\n",
      "{\"kinema\":2,\"rank\":1,\"size\":2,\"address\":7,\"token\":\"\"}\n",
      "{\"kinema\":1,\"rank\":1,\"size\":2,\"address\":\"a\",\"token\":\"\"}\n",
      "[1,2)\n",
      "GET / HTTP/1.1\r\n\r\n"};
}

TEST(TcpEngine, UnauthenticatedMessagesAreIgnored) {
  const std::string address = free_address();
  auto first = start(address, {{0, 2}});
  std::vector<Stranger> strangers;
  for (const std::string& each : garbage()) {
    strangers.emplace_back(address).say(each);
  }
  strangers.emplace_back(address);  // stays silent
  auto second = start(address, {{1, 2}});
  const Engines all = {first.front().get(), second.front().get()};
  all[0]->send(0, Message::copy_of("ok"), 1, 0);
  EXPECT_EQ(text_of(*all[1]->receive(0, 2, 0, 0)), "ok");
  for (const std::string& each : garbage()) {  // when all are there
    strangers.emplace_back(address).say(each);
  }
  all[1]->send(0, Message::copy_of("ok"), 0, 0);
  EXPECT_EQ(text_of(*all[0]->receive(0, 2, 1, 0)), "ok");
}

// Once all processes have spoken, the system ignores most of those who come to the port.
TEST(TcpEngine, FewStrangersAreAcceptedWhenAllAreThere) {
  const std::string address = free_address();
  const Engines all = join(2, address);
  all[1]->send(0, Message::copy_of("x"), 0, 0);
  EXPECT_EQ(text_of(*all[0]->receive(0, 1, 1, 0)), "x");
  const Addresses at = resolve(parts_of(address));
  ASSERT_TRUE(at);
  constexpr int kMany = 1000;
  const Stopwatch watch;
  std::vector<io::Descriptor> strangers;
  std::vector<pollfd> items;
  for (int i = 0; i < kMany; ++i) {
    strangers.emplace_back(socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    connect(strangers.back().get(), at->ai_addr, at->ai_addrlen);
    items.push_back({.fd = strangers.back().get(), .events = POLLOUT, .revents = 0});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  poll(items.data(), items.size(), 0);
  const auto accepted =
      std::ranges::count_if(items, [](const pollfd& each) { return each.revents != 0; });
  // 9 may wait (the kernel takes one more than its limit), and 9 more after the engine has looked,
  // every half second. After a second the system asks again, and answers some that it then ignores.
  if (watch.seconds() < 0.9) {
    EXPECT_LE(accepted, 18);
  }
  EXPECT_GE(accepted, 1);
}

// A repeated request is answered once; only processes of the run get the secret.
TEST(TcpEngine, SendsNoSecretToLateConnections) {
  const std::string address = free_address();
  const Engines all = join(2, address);
  const Stranger late(address);
  const std::string hello = to_line(
      HandshakeRequest{.rank = 1, .size = 2, .address = "tcp://127.0.0.1:1", .token = "guessed"});
  late.say(hello + hello + hello);
  EXPECT_THAT(late.hear(), AnyOf("", HasSubstr("have already connected")));
  const Stranger one(address);
  one.say(hello);
  EXPECT_THAT(one.hear(), AllOf(HasSubstr("have already connected"), Not(HasSubstr("secret"))));
}

TEST(TcpEngine, TextsAndBarriersOfManyProcesses) {
  constexpr int64_t kMany = 24;
  const Engines all = join(kMany);
  std::vector<std::future<std::vector<std::string>>> gathered;
  for (const std::shared_ptr<Engine>& each : all) {
    gathered.push_back(std::async(std::launch::async, [each] {
      Communicator communicator(each);
      communicator.barrier({.what = "a test"});
      return communicator.gather(std::to_string(each->rank()), {.what = "a test"});
    }));
  }
  for (auto& each : gathered) {
    const std::vector<std::string> texts = each.get();
    ASSERT_EQ(std::ssize(texts), kMany);
    EXPECT_EQ(texts.back(), std::to_string(kMany - 1));
  }
}

}  // namespace
}  // namespace kinema::world
