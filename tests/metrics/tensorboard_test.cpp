#include "kinema/metrics/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/records/event_file.h"
#include "kinema/records/tfrecord.h"

namespace kinema::metrics {
namespace {

using testing::HasSubstr;

// The bytes that TensorFlow's own Event(wall_time=1.5, step=300,
// summary=Summary(value=[Value(tag="a", simple_value=0.25)])).SerializeToString() writes, by the
// protobuf wire format.
TEST(TensorBoard, WritesScalarsAsEvents) {
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xf8\x3f"  // 1: double 1.5
      "\x10\xac\x02"                          // 2: varint 300
      "\x2a\x0a"                              // 5: 10 bytes
      "\x0a\x08"                              //   1: 8 bytes
      "\x0a\x01"
      "a"                      //     1: "a"
      "\x15\x00\x00\x80\x3e",  //     2: float 0.25
      9 + 3 + 2 + 2 + 3 + 5);
  EXPECT_EQ(scalar_event(1.5, 300, {{"a", 0.25}}), expected);
}

// The same for Summary(value=[Value(tag="a", tensor=TensorProto(dtype=DT_STRING, tensor_shape={dim
// {size: 1}}, string_val=["b"]), metadata={plugin_data {plugin_name: "text"}})]).
TEST(TensorBoard, WritesTextsAsEvents) {
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xf8\x3f"
      "\x10\x00"
      "\x2a\x1c"  // 5: summary
      "\x0a\x1a"  //   1: value
      "\x0a\x01"
      "a"                         //     1: "a"
      "\x42\x0b"                  //     8: tensor
      "\x08\x07"                  //       1: DT_STRING
      "\x12\x04\x12\x02\x08\x01"  //       2: shape, 2: dim, 1: 1
      "\x42\x01"
      "b"                 //       8: "b"
      "\x4a\x08"          //     9: metadata
      "\x0a\x06\x0a\x04"  //       1: plugin data, 1: name
      "text",
      9 + 2 + 2 + 2 + 3 + 2 + 2 + 6 + 3 + 2 + 4 + 4);
  EXPECT_EQ(text_event(1.5, "a", "b"), expected);
}

TEST(TensorBoard, IsReadBackAsItWasWritten) {
  const io::Scratch scratch;
  EventFile events(scratch / "tensorboard", 0);
  events.write({.step = 4, .loss = 0.5, .gradient_norm = 2.5, .seconds = 1.0});
  events.write_text("config.yml", "seed: 1");
  events.flush();

  const auto entry = *std::filesystem::directory_iterator(scratch / "tensorboard");
  ASSERT_TRUE(records::is_event_file(entry.path()));
  int found = 0;
  for (const records::EventValue& each : records::read_event_file(entry.path())) {
    if (each.tag == "learning/loss") {
      ++found;
      EXPECT_EQ(each.kind, records::EventValue::Kind::SCALAR);
      EXPECT_EQ(each.step, 4);
      EXPECT_EQ(each.scalar, 0.5);
    } else if (each.tag == "learning/grad_norm" || each.tag == "learning/max_grad_norm") {
      ++found;
      EXPECT_EQ(each.scalar, 2.5);
    } else if (each.tag == "config.yml") {
      ++found;
      EXPECT_EQ(each.kind, records::EventValue::Kind::TEXT);
      EXPECT_THAT(each.bytes, HasSubstr("seed: 1"));
    }
  }
  EXPECT_EQ(found, 4);
  EXPECT_THROW(records::parse_event(std::as_bytes(std::span("\xff\xff", 2)), "bytes"), Error);
}

// The same for Summary(value=[Value(tag="a", image=Image(height=2, width=300, colorspace=3,
// encoded_image_string=b"GIF"))]).
TEST(TensorBoard, WritesPicturesAsEvents) {
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xf8\x3f"
      "\x10\x07"
      "\x2a\x13"  // 5: summary
      "\x0a\x11"  //   1: value
      "\x0a\x01"
      "a"             //     1: "a"
      "\x22\x0c"      //     4: image
      "\x08\x02"      //       1: height
      "\x10\xac\x02"  //       2: width
      "\x18\x03"      //       3: RGB
      "\x22\x03"      //       4: the file
      "GIF",
      9 + 2 + 2 + 2 + 3 + 2 + 2 + 3 + 2 + 2 + 3);
  EXPECT_EQ(image_event(1.5, 7, {.name = "a", .height = 2, .width = 300, .encoded = "GIF"}),
            expected);
}

TEST(TensorBoard, FramesEventsAsRecordsAfterTheVersion) {
  const io::Scratch scratch;
  EventFile events(scratch / "tensorboard", 4);
  events.write({.step = 4, .loss = 0.5, .seconds = 1.0});
  events.flush();

  const auto entry = *std::filesystem::directory_iterator(scratch / "tensorboard");
  EXPECT_THAT(entry.path().filename().string(), testing::StartsWith("events.out.tfevents."));
  const records::TfRecordFile file = records::TfRecordFile::open(entry.path());
  ASSERT_EQ(file.size(), 3);  // version, restart, step; at() checks every CRC
  const auto text = [&](int64_t i) {
    const auto bytes = file.at(i);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_THAT(text(0), HasSubstr("brain.Event:2"));
  EXPECT_THAT(text(2), HasSubstr("learning/loss"));
}

}  // namespace
}  // namespace kinema::metrics
