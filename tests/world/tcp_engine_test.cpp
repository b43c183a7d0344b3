// Several engines in one process, each as a process of its own would have it.
#include "kinema/world/tcp_engine.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <zmq.hpp>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/world/communicator.h"
#include "kinema/world/keys.h"

namespace kinema::world {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Engines = std::vector<std::shared_ptr<Engine>>;

/// A port that was free a moment ago.
std::string free_address() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof at;
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&at), &length), 0);
  close(socket);
  return fmt::format("127.0.0.1:{}", ntohs(at.sin_port));
}

/// `wanted`: of each process, its number and how many it was told of; gives the engine or throws.
std::vector<std::future<std::shared_ptr<Engine>>> start(
    const std::string& coordinator, const std::vector<std::pair<int64_t, int64_t>>& wanted,
    double seconds = 60) {
  std::vector<std::future<std::shared_ptr<Engine>>> out;
  for (const auto& [rank, size] : wanted) {
    out.push_back(std::async(std::launch::async, [=] {
      return join_over_tcp(
          {.rank = rank, .size = size, .coordinator = coordinator, .seconds = seconds});
    }));
  }
  return out;
}

Engines join(int64_t size, const std::string& coordinator = free_address()) {
  std::vector<std::pair<int64_t, int64_t>> all;
  for (int64_t rank = 0; rank < size; ++rank) {
    all.emplace_back(rank, size);
  }
  Engines out;
  for (auto& each : start(coordinator, all)) {
    out.push_back(each.get());
  }
  return out;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void wait(Pending& message) {
  for (const Stopwatch watch; !message.done();) {
    check(watch.seconds() < 20, "no message came");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(TcpEngine, CarriesMessagesOfAnyLengthInOrder) {
  const Engines all = join(3);
  EXPECT_EQ(all[2]->rank(), 2);
  EXPECT_EQ(all[0]->size(), 3);
  EXPECT_THAT(all[1]->name(), HasSubstr("ZeroMQ"));
  const int channel = all[1]->open_channel();
  for (const size_t length : {size_t{0}, size_t{1}, size_t{100000}, size_t{64} << 20}) {
    const std::string first(length, 'a');
    const std::string second(length, 'b');
    all[1]->send(channel, std::as_bytes(std::span(first)), 2, 7);
    all[1]->send(channel, std::as_bytes(std::span(second)), 2, 7);
    std::vector<std::byte> one(length);
    std::vector<std::byte> other(length);
    const auto receives = all[2]->receive(channel, one, 1, 7);
    const auto receives_more = all[2]->receive(channel, other, 1, 7);
    wait(*receives_more);
    wait(*receives);
    EXPECT_TRUE(text_of(one) == first && text_of(other) == second) << length;
  }
}

TEST(TcpEngine, KeepsSendersTagsAndChannelsApart) {
  const Engines all = join(3);
  const int a = all[0]->open_channel();
  const int b = all[0]->open_channel();
  std::map<std::tuple<int64_t, int, int>, std::byte> got;
  std::vector<std::unique_ptr<Pending>> receiving;
  for (const int64_t from : {1, 2}) {
    for (const int channel : {a, b}) {
      for (const int tag : {0, 5}) {
        std::byte& into = got[{from, channel, tag}];
        receiving.push_back(all[0]->receive(channel, {&into, 1}, from, tag));
      }
    }
  }
  const auto value = [](int64_t from, int channel, int tag) {
    return static_cast<std::byte>(from * 16 + channel * 8 + tag);
  };
  for (const auto& [key, into] : got) {
    const auto [from, channel, tag] = key;
    const std::byte sent = value(from, channel, tag);
    all[static_cast<size_t>(from)]->send(channel, {&sent, 1}, 0, tag);
  }
  for (const auto& each : receiving) {
    wait(*each);
  }
  for (const auto& [key, into] : got) {
    const auto [from, channel, tag] = key;
    EXPECT_EQ(into, value(from, channel, tag));
  }
}

TEST(TcpEngine, RefusesAMessageOfAnotherLength) {
  const Engines all = join(2);
  const std::string text = "abc";
  all[0]->send(0, std::as_bytes(std::span(text)), 1, 0);
  std::vector<std::byte> room(2);
  const auto receives = all[1]->receive(0, room, 0, 0);
  EXPECT_THAT([&] { wait(*receives); }, ThrowsMessage<Error>(HasSubstr("3 bytes")));
}

TEST(TcpEngine, AMessageGivenUpIsTheNextOnes) {
  const Engines all = join(2);
  std::vector<std::byte> room(1);
  all[1]->receive(0, room, 0, 0).reset();
  const auto receives = all[1]->receive(0, room, 0, 0);
  const std::string text = "x";
  all[0]->send(0, std::as_bytes(std::span(text)), 1, 0);
  wait(*receives);
  EXPECT_EQ(text_of(room), "x");
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

TEST(TcpEngine, NamesThoseThatDoNotCome) {
  auto all = start(free_address(), {{0, 4}, {2, 4}}, /*seconds=*/1);
  for (auto& each : all) {
    EXPECT_THAT([&] { each.get(); },
                ThrowsMessage<Error>(
                    AllOf(HasSubstr("processes 1 and 3 did not come"), HasSubstr("127.0.0.1:"))));
  }
}

TEST(TcpEngine, NamesTwoWithOneNumberAndOtherCounts) {
  for (auto& each : start(free_address(), {{0, 3}, {1, 3}, {1, 3}})) {
    EXPECT_THAT([&] { each.get(); },
                ThrowsMessage<Error>(HasSubstr("[process_id] two processes have the number 1")));
  }
  for (auto& each : start(free_address(), {{0, 3}, {1, 2}})) {
    EXPECT_THAT([&] { each.get(); },
                ThrowsMessage<Error>(HasSubstr("process 1 was told of 2, process 0 of 3")));
  }
  for (auto& each : start(free_address(), {{0, 2}, {5, 2}})) {
    EXPECT_THAT([&] { each.get(); }, ThrowsMessage<Error>(HasSubstr("the number 5 of 2")));
  }
}

// As where one is ended while the last is waited for, and started again.
TEST(TcpEngine, OneThatLeftMayComeAgain) {
  for (const bool is_last : {false, true}) {
    const std::string address = free_address();
    auto first = start(address, {{0, 3}});
    const auto comes_and_goes = [&] {
      zmq::context_t context;
      zmq::socket_t gone(context, zmq::socket_type::dealer);
      gone.set(zmq::sockopt::ipv6, true);
      gone.connect("tcp://" + address);
      gone.send(zmq::str_buffer(R"({"kinema":1,"rank":1,"size":3,"address":"tcp://127.0.0.1:1"})"),
                zmq::send_flags::none);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    };
    comes_and_goes();
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
              ThrowsMessage<Error>(HasSubstr("are there already")));
}

TEST(TcpEngine, NamesAnAddressThatIsNone) {
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

/// What anyone may send to an open port.
std::vector<std::string> garbage() {
  return {"",
          std::string(3, '\0'),
          std::string(100000, 'x'),
          R"({"kinema":1})",
          R"({"kinema":1,"rank":-1,"size":2,"address":"a"})",
          R"({"kinema":1,"rank":18446744073709551615,"size":2,"address":"a"})",
          R"({"kinema":1,"rank":1,"size":2,"address":7})",
          R"({"kinema":2,"rank":1,"size":2,"address":"a"})",
          R"([1,2)",
          "GET / HTTP/1.1\r\n\r\n"};
}

TEST(TcpEngine, StrangersAreNotHeard) {
  const std::string address = free_address();
  auto first = start(address, {{0, 2}});
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 0);
  stranger.connect("tcp://" + address);
  for (const std::string& each : garbage()) {
    stranger.send(zmq::buffer(each), zmq::send_flags::none);
    stranger.send(zmq::buffer(each), zmq::send_flags::sndmore);
    stranger.send(zmq::buffer(each), zmq::send_flags::none);
  }
  auto second = start(address, {{1, 2}});
  const Engines all = {first.front().get(), second.front().get()};
  const std::string text = "ok";
  all[0]->send(0, std::as_bytes(std::span(text)), 1, 0);
  std::vector<std::byte> room(2);
  wait(*all[1]->receive(0, room, 0, 0));
  EXPECT_EQ(text_of(room), "ok");
}

TEST(TcpEngine, TextsAndBarriersOfManyProcesses) {
  constexpr int64_t kMany = 24;
  const Engines all = join(kMany);
  std::vector<std::future<std::vector<std::string>>> gathered;
  for (const std::shared_ptr<Engine>& each : all) {
    gathered.push_back(std::async(std::launch::async, [each] {
      Communicator talk(each);
      talk.barrier({.what = "a test"});
      return talk.gather(std::to_string(each->rank()), {.what = "a test"});
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
