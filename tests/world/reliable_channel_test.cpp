// Two sides without sockets, over connections that lose what the tests choose.
#include "kinema/world/reliable_channel.h"

#include <gmock/gmock.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::world {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Time = ReliableChannel::Time;
using Texts = std::vector<std::string>;

/// Messages from one side to the other, and acknowledgements back.
struct Line {
  ReliableChannel from{0};
  ReliableChannel to{1};
  Time now{};
  Texts got;

  void send(const std::string& text) { from.send({.tag = 7}, Message::copy_of(text)); }
  std::vector<Packet> all_of(ReliableChannel& side) const {
    std::vector<Packet> out;
    while (std::optional<Packet> packet = side.next(now)) {
      out.push_back(*std::move(packet));
    }
    return out;
  }
  void arrive(const std::vector<Packet>& packets) {
    for (const Packet& each : packets) {
      if (const auto received = to.take(each.header, each.bytes, now)) {
        EXPECT_EQ(received->envelope.tag, 7);
        got.push_back(received->message.text());
      }
    }
  }
  void answer(const std::vector<Packet>& packets) {
    for (const Packet& each : packets) {
      EXPECT_FALSE(from.take(each.header, each.bytes, now));
    }
  }
  void wait(milliseconds time) { now += time; }
  /// Delivers everything until neither side has more to send.
  void settle() {
    for (int turn = 0; turn < 50; ++turn) {
      arrive(all_of(from));
      answer(all_of(to));
      wait(milliseconds(100));
    }
  }
};

TEST(ReliableChannel, CarriesMessagesInOrderAndForgetsThem) {
  Line line;
  line.send("a");
  line.send("");
  line.send("b");
  line.arrive(line.all_of(line.from));
  EXPECT_THAT(line.got, ElementsAre("a", "", "b"));
  EXPECT_FALSE(line.from.all_acknowledged());
  EXPECT_THAT(line.all_of(line.to), IsEmpty());  // it waits for a packet to travel with
  line.wait(ReliableChannel::kAcknowledgeAfter);
  line.answer(line.all_of(line.to));
  EXPECT_TRUE(line.from.all_acknowledged());
  EXPECT_EQ(line.from.due(), std::nullopt);
  EXPECT_EQ(line.to.due(), std::nullopt);
}

TEST(ReliableChannel, AcknowledgesWithWhatItSends) {
  Line line;
  line.send("a");
  line.arrive(line.all_of(line.from));
  line.to.send({}, Message::copy_of("back"));
  const std::vector<Packet> back = line.all_of(line.to);
  ASSERT_EQ(back.size(), 1);
  ASSERT_TRUE(line.from.take(back[0].header, back[0].bytes, line.now));
  EXPECT_TRUE(line.from.all_acknowledged());
  line.wait(ReliableChannel::kAcknowledgeAfter);
  EXPECT_THAT(line.all_of(line.to), IsEmpty());
}

TEST(ReliableChannel, CutsMessagesIntoParts) {
  Line line;
  std::string text(2 * ReliableChannel::kPartBytes + 5, 'x');
  text[ReliableChannel::kPartBytes] = 'y';
  line.send(text);
  line.send("next");
  const std::vector<Packet> packets = line.all_of(line.from);
  ASSERT_EQ(packets.size(), 4);
  EXPECT_EQ(packets[0].bytes.size(), ReliableChannel::kPartBytes);
  EXPECT_EQ(packets[2].bytes.size(), 5);
  line.arrive(packets);
  EXPECT_TRUE(line.got == (Texts{text, "next"}));
}

TEST(ReliableChannel, SendsAgainFromTheFirstGap) {
  Line line;
  for (const char* const each : {"a", "b", "c", "d"}) {
    line.send(each);
  }
  std::vector<Packet> packets = line.all_of(line.from);
  packets.erase(packets.begin() + 1);
  line.arrive(packets);
  EXPECT_THAT(line.got, ElementsAre("a"));
  const std::vector<Packet> lost = line.all_of(line.to);
  ASSERT_EQ(lost.size(), 1);  // c and d show the same gap
  line.answer(lost);
  EXPECT_EQ(line.from.attempt(), 1);
  line.arrive(line.all_of(line.from));
  EXPECT_THAT(line.got, ElementsAre("a", "b", "c", "d"));
  line.settle();
  EXPECT_TRUE(line.from.all_acknowledged());
  EXPECT_EQ(line.from.attempt(), 1);
}

TEST(ReliableChannel, MissesTheLastOnesByAProbe) {
  Line line;
  line.send("a");
  line.all_of(line.from);  // all of it is lost
  line.wait(ReliableChannel::kProbeAfter);
  EXPECT_LE(*line.from.due(), line.now);
  line.all_of(line.from);  // and the probe
  line.wait(ReliableChannel::kProbeAfter);
  line.arrive(line.all_of(line.from));
  line.all_of(line.to);  // and the answer to it
  line.settle();
  EXPECT_THAT(line.got, ElementsAre("a"));
  EXPECT_TRUE(line.from.all_acknowledged());
}

TEST(ReliableChannel, GivesTheSameMessageOnce) {
  Line line;
  line.send("a");
  line.send("b");
  const std::vector<Packet> packets = line.all_of(line.from);
  line.arrive(packets);
  line.arrive(packets);
  EXPECT_THAT(line.got, ElementsAre("a", "b"));
  line.all_of(line.to);  // the acknowledgement is lost
  line.settle();
  EXPECT_THAT(line.got, ElementsAre("a", "b"));
  EXPECT_TRUE(line.from.all_acknowledged());
}

TEST(ReliableChannel, KeepsAWindowOnTheWay) {
  Line line;
  for (size_t i = 0; i < 2 * ReliableChannel::kWindowParts; ++i) {
    line.send("x");
  }
  EXPECT_EQ(line.all_of(line.from).size(), ReliableChannel::kWindowParts);
  const uint64_t end = line.from.send(
      {.tag = 7}, Message::copy_of(std::string(2 * ReliableChannel::kWindowBytes, 'y')));
  line.from.go_back();
  line.settle();
  EXPECT_TRUE(line.from.was_sent(end));
  EXPECT_TRUE(line.from.all_acknowledged());
  EXPECT_EQ(line.got.size(), 2 * ReliableChannel::kWindowParts + 1);
  EXPECT_EQ(line.got.back().size(), 2 * ReliableChannel::kWindowBytes);

  Line large;
  const uint64_t all = large.from.send(
      {.tag = 7}, Message::copy_of(std::string(2 * ReliableChannel::kWindowBytes, 'z')));
  EXPECT_EQ(large.all_of(large.from).size(),
            ReliableChannel::kWindowBytes / ReliableChannel::kPartBytes);
  EXPECT_FALSE(large.from.was_sent(all));
}

TEST(ReliableChannel, KnowsHowLongNothingWasAcknowledged) {
  Line line;
  EXPECT_EQ(line.from.waiting_since(), std::nullopt);
  line.wait(milliseconds(5));
  line.send("a");
  line.all_of(line.from);
  const Time first = line.now;
  line.wait(milliseconds(500));
  line.send("b");
  line.all_of(line.from);
  EXPECT_EQ(line.from.waiting_since(), first);
  line.settle();
  EXPECT_EQ(line.from.waiting_since(), std::nullopt);
}

TEST(ReliableChannel, RefusesWhatNoSenderMakes) {
  const Time now{};
  const Message part = Message::copy_of("abc");
  ReliableChannel receiver(1);
  EXPECT_THAT([&] { receiver.take({.received = 1, .envelope = {}}, {}, now); },
              ThrowsMessage<Error>(HasSubstr("was acknowledged, but 0 were sent")));
  EXPECT_FALSE(receiver.take({.message_bytes = 7, .envelope = {}}, part, now));
  EXPECT_THAT([&] { receiver.take({.number = 1, .message_bytes = 9, .envelope = {}}, part, now); },
              ThrowsMessage<Error>(HasSubstr("a part of 3 bytes arrived after 3 of the 7 bytes")));
  EXPECT_FALSE(receiver.take({.number = 1, .message_bytes = 7, .envelope = {}}, part, now));
  EXPECT_THAT([&] { receiver.take({.number = 2, .message_bytes = 7, .envelope = {}}, part, now); },
              ThrowsMessage<Error>(HasSubstr("a part of 3 bytes arrived after 6 of the 7 bytes")));
}

/// Two sides that both send, over connections that end at random moments: packets in transit are
/// lost, in both directions.
TEST(ReliableChannel, LosesNothingAtAThousandCuts) {
  std::mt19937_64 random(3);
  std::vector<ReliableChannel> sides = {ReliableChannel(0), ReliableChannel(1)};
  std::vector<std::deque<Packet>> on_the_way(2);  // from each side
  std::vector<int> sent(2);
  std::vector<int> got(2);
  Time now{};
  int cuts = 0;
  const auto text = [](size_t side, int i) {
    return std::to_string(side) + "/" + std::to_string(i);
  };
  constexpr int kMessages = 4000;
  for (int turn = 0; turn < 1000000; ++turn) {
    const size_t side = random() % 2;
    switch (random() % 8) {
      case 0:
        if (sent[side] < kMessages) {
          sides[side].send({}, Message::copy_of(text(side, sent[side]++)));
        }
        break;
      case 1:
        if (cuts < 1000 && random() % 10 == 0) {
          ++cuts;
          for (std::deque<Packet>& each : on_the_way) {
            each.resize(random() % (each.size() + 1));
          }
        }
        break;
      case 2:
        now += milliseconds(random() % 10);
        break;
      case 3:
      case 4:
        if (std::optional<Packet> packet = sides[side].next(now)) {
          on_the_way[side].push_back(*std::move(packet));
        }
        break;
      default:
        if (!on_the_way[side].empty()) {
          const Packet packet = on_the_way[side].front();
          on_the_way[side].pop_front();
          if (const auto received = sides[1 - side].take(packet.header, packet.bytes, now)) {
            ASSERT_EQ(received->message.text(), text(side, got[side]++));
          }
        }
    }
  }
  EXPECT_EQ(cuts, 1000);
  EXPECT_THAT(got, ElementsAre(kMessages, kMessages));
  EXPECT_TRUE(sides[0].all_acknowledged() && sides[1].all_acknowledged());
}

}  // namespace
}  // namespace kinema::world
