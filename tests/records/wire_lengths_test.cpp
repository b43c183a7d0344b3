#include "kinema/records/wire_lengths.h"

#include <gtest/gtest.h>

#include <string>

#include "kinema/core/error.h"
#include "kinema/records/event_file.h"
#include "kinema/records/example_proto.h"

namespace kinema::records {
namespace {

using namespace std::string_literals;

constexpr WireMessage kLeaf{};
constexpr WireMessage::Field kFields[] = {{1, &kLeaf}};
constexpr WireMessage kOuter{kFields};

bool fits(const std::string& bytes) {
  return lengths_fit(std::as_bytes(std::span(bytes.data(), bytes.size())), kOuter);
}

TEST(WireLengths, AcceptEveryKindOfField) {
  EXPECT_TRUE(fits(""));
  EXPECT_TRUE(fits("\x08\x96\x01"s));          // 1: varint
  EXPECT_TRUE(fits("\x09\0\0\0\0\0\0\0\0"s));  // 1: 8 bytes
  EXPECT_TRUE(fits("\x0d\0\0\0\0"s));          // 1: 4 bytes
  EXPECT_TRUE(
      fits("\x0a\x03\x12\x01z\x12\x02"
           "ab"s));  // 1: a message with 2: "z"; 2: "ab"
}

TEST(WireLengths, RefuseWhatEndsTooEarly) {
  EXPECT_FALSE(fits("\x08"s));
  EXPECT_FALSE(fits("\x09\0\0"s));
  EXPECT_FALSE(
      fits("\x12\x03"
           "ab"s));
  EXPECT_FALSE(fits("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s));  // a varint of 11 bytes
}

TEST(WireLengths, RefuseALengthThatLeavesItsMessage) {
  // 1: a message of 2 bytes, whose field 2 claims 3 bytes, which only the outer message has.
  EXPECT_FALSE(
      fits("\x0a\x02\x12\x03"
           "abc"s));
  // In a field that is not a message, the same bytes are no length.
  EXPECT_TRUE(fits("\x1a\x02\x12\x03\x08\x01"s));
}

TEST(WireLengths, RefuseGroups) { EXPECT_FALSE(fits("\x0b\x0c"s)); }

TEST(WireLengths, AreAskedBeforeAMessageIsParsed) {
  // A summary of 1 GB in 5 bytes; in it, an unknown field of 512 MB.
  const std::string bytes = "\x2a\x80\x80\x80\x80\x04\x3a\x80\x80\x80\x80\x02z"s;
  const auto span = std::as_bytes(std::span(bytes.data(), bytes.size()));
  EXPECT_THROW(parse_event(span, "bytes"), Error);
  EXPECT_THROW(parse_example(span, "bytes"), Error);
  EXPECT_THROW(parse_tensor_proto(span, "bytes"), Error);
}

}  // namespace
}  // namespace kinema::records
