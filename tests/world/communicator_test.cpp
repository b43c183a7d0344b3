// Run by mpirun, as several processes.
#include "kinema/world/communicator.h"

#include <gmock/gmock.h>

#include <thread>

#include "kinema/core/error.h"
#include "world/test_world.h"

namespace kinema::world {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Communicator, KnowsAllProcesses) {
  const World& world = test_world();
  EXPECT_EQ(world.size(), 3);
  EXPECT_EQ(world.hosts().size(), 3U);
  EXPECT_EQ(world.launch().local_size, 3);  // a test has one host
  EXPECT_EQ(world.launch().local_rank, world.rank());
  EXPECT_THAT(world.text(), HasSubstr("3 processes on 1 host, by mpirun"));
}

TEST(Communicator, GathersTextsOfAnyLengthByRank) {
  World& world = test_world();
  for (const size_t length : {size_t{0}, size_t{1}, size_t{5000}, size_t{3} << 20}) {
    const auto text = [&](int64_t rank) {
      return std::string(length * static_cast<size_t>(rank), static_cast<char>('a' + rank));
    };
    const std::vector<std::string> all =
        world.communicator().gather(text(world.rank()), {.what = "a test"});
    ASSERT_EQ(all.size(), 3U);
    for (int64_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(all[static_cast<size_t>(rank)] == text(rank)) << length << " of " << rank;
    }
  }
}

TEST(Communicator, BroadcastsFromProcess0) {
  World& world = test_world();
  const std::string said = "zero \0 inside";
  EXPECT_EQ(world.communicator().broadcast(world.is_first() ? said : "another", {.what = "a test"}),
            said);
}

TEST(Communicator, SendsFromOneToAnother) {
  World& world = test_world();
  const Wait wait{.what = "a test"};
  for (const size_t length : {size_t{0}, size_t{7}, size_t{5} << 20}) {
    const auto text = [&](int64_t rank) {
      return std::string(length, static_cast<char>('a' + rank));
    };
    const int64_t before = (world.rank() + 2) % 3;
    if (world.is_first()) {  // around: 0 to 1 to 2 to 0
      world.communicator().send(text(0), 1, wait);
      EXPECT_TRUE(world.communicator().receive(before, wait) == text(before));
    } else {
      EXPECT_TRUE(world.communicator().receive(before, wait) == text(before));
      world.communicator().send(text(world.rank()), (world.rank() + 1) % 3, wait);
    }
  }
  EXPECT_THROW(world.communicator().send("", world.rank(), wait), Error);
  EXPECT_THROW(world.communicator().receive(3, wait), Error);
}

TEST(Communicator, KeepsTwoChannelsApart) {
  World& world = test_world();
  Communicator other(world.engine());
  std::thread beside([&] {
    for (int i = 0; i < 50; ++i) {
      const auto all = other.gather("other", {.what = "a test"});
      ASSERT_EQ(all.back(), "other");
    }
  });
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(world.communicator().gather("main", {.what = "a test"}).back(), "main");
  }
  beside.join();
}

TEST(Communicator, NamesTheMissingProcess) {
  World& world = test_world();
  Communicator late(world.engine());
  if (world.rank() != 2) {
    std::string error;
    try {
      late.barrier({.what = "a meeting", .seconds = 0.5});
    } catch (const Error& caught) {
      error = caught.what();
    }
    // Process 0 knows who is missing; the others wait for process 0.
    EXPECT_THAT(error, AllOf(HasSubstr(world.is_first() ? "process 2 did" : "process 0 did"),
                             HasSubstr("a meeting")));
  }
  world.communicator().barrier({.what = "the end of the test"});
}

TEST(Communicator, EndsAWaitWhenAnotherFailed) {
  World& world = test_world();
  Communicator with_failure(world.engine(), [] { return std::string("[a] process 1 fell"); });
  if (world.rank() != 1) {
    std::string error;
    try {
      with_failure.barrier({.what = "a meeting"});
    } catch (const Error& caught) {
      error = caught.what();
    }
    EXPECT_EQ(error, "[a] process 1 fell");
  }
  world.communicator().barrier({.what = "the end of the test"});
}

// The engine owns its memory until the network is done with it.
TEST(Engine, ADroppedSendArrivesCompletely) {
  World& world = test_world();
  Engine& engine = *world.engine();
  const int channel = engine.open_channel();
  const std::string text(size_t{64} << 20, 'a');  // more than a receiver accepts without a request
  world.communicator().barrier({.what = "the start of the test"});
  if (world.rank() == 1) {
    auto copy = Message::copy_of(text);
    engine.send(channel, std::exchange(copy, {}), 2, 0).reset();
    const std::string others(size_t{64} << 20, 'b');  // where the copy may have been
    world.communicator().barrier({.what = "what was sent"});
    world.communicator().barrier({.what = "the end of the test"});
    EXPECT_EQ(others.front(), 'b');
    return;
  }
  world.communicator().barrier({.what = "what was sent"});
  if (world.rank() == 2) {
    const auto receives = engine.receive(channel, text.size(), 1, 0);
    for (const Stopwatch watch; !receives->done() && watch.seconds() < 60;) {
    }
    EXPECT_TRUE(receives->message().text() == text);
  }
  world.communicator().barrier({.what = "the end of the test"});
}

// Data that arrives late for an abandoned receive goes only into the engine's memory.
TEST(Engine, ACancelledReceiveIsNotWritten) {
  World& world = test_world();
  Engine& engine = *world.engine();
  const int channel = engine.open_channel();
  const size_t size = size_t{64} << 20;
  for (int i = 0; i < 5; ++i) {
    world.communicator().barrier({.what = "the start of a turn"});
    if (world.rank() == 1) {
      engine.send(channel, Message::copy_of(std::string(size, 'a')), 2, i);
    } else if (world.rank() == 2) {
      auto receives = engine.receive(channel, size, 1, i);
      receives->done();
      receives.reset();
      const std::vector<char> others(size, 'b');
      EXPECT_EQ(std::ranges::count(others, 'b'), std::ssize(others));
    }
  }
  world.communicator().barrier({.what = "the end of the test"});
}

TEST(Keys, ArriveWholeFromAnyProcess) {
  World& world = test_world();
  Engine& engine = *world.engine();
  const std::string value("with\0zero", 9);
  EXPECT_EQ(engine.get("nobody's"), std::nullopt);
  if (world.rank() == 1) {
    engine.put("a key", value);
  }
  world.communicator().barrier({.what = "the key"});
  EXPECT_EQ(engine.get("a key"), value);
}

}  // namespace
}  // namespace kinema::world
