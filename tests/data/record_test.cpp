#include "kinema/data/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/safetensors.h"
#include "kinema/records/example_proto.h"
#include "kinema/records/tfrecord.h"

namespace kinema::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Record, ReadsTheReferenceShards) {
  const io::SafetensorsFile expected =
      io::SafetensorsFile::open(io::golden("io/dataset.safetensors"));
  const auto latents = expected.at("latents").bytes;
  const size_t sample_bytes = latents.size() / 12;
  size_t sample = 0;
  for (const char* name : {"train/file_00-8.tfrec", "train/file_01-16.tfrec"}) {
    const records::TfRecordFile file =
        records::TfRecordFile::open(io::golden("dataset/tfrecords") / name);
    for (int64_t i = 0; i < file.size(); ++i, ++sample) {
      SCOPED_TRACE(file.where(i));
      const Sample record = parse_record(file.at(i), file.where(i));
      const auto want = latents.subspan(sample * sample_bytes, sample_bytes);
      EXPECT_EQ(record.latents.shape, (Shape{DType::F32, {16, 5, 8, 8}}));
      EXPECT_TRUE(std::ranges::equal(record.latents.bytes, want));
      EXPECT_EQ(record.encoder_hidden_states.shape, (Shape{DType::F32, {96, 48}}));
      EXPECT_FALSE(record.timestep.has_value());
      if (sample == 0) {
        const HostArray states = expected.at("clip_00.encoder_hidden_states").copy();
        EXPECT_EQ(record.encoder_hidden_states.bytes, states.bytes);
      }
    }
  }
  EXPECT_EQ(sample, 12U);
}

TEST(Record, ReadsTimestepsAndBfloat16) {
  const records::TfRecordFile eval =
      records::TfRecordFile::open(io::golden("dataset/tfrecords/eval/file_00-7.tfrec"));
  EXPECT_EQ(parse_record(eval.at(0), eval.where(0)).timestep, 125);
  EXPECT_EQ(parse_record(eval.at(6), eval.where(6)).timestep, 875);

  const records::TfRecordFile half =
      records::TfRecordFile::open(io::golden("dataset/tfrecords/bf16/file_00-2.tfrec"));
  const records::TfRecordFile full =
      records::TfRecordFile::open(io::golden("dataset/tfrecords/train/file_00-8.tfrec"));
  const HostArray rounded = convert(parse_record(full.at(1), full.where(1)).latents, DType::BF16);
  EXPECT_EQ(parse_record(half.at(1), half.where(1)).latents.bytes, rounded.bytes);
}

TEST(Record, ReadsBackImageConditionsAndRefusesOnesOfOtherSizes) {
  Sample record;
  record.latents = HostArray(Shape{DType::F32, {2, 1, 2, 2}});
  record.encoder_hidden_states = HostArray(Shape{DType::F32, {1, 2}});
  record.condition = HostArray(Shape{DType::BF16, {6, 1, 2, 2}});
  record.condition.bytes[5] = std::byte{9};
  record.image_states = HostArray::f32({2, 1}, std::vector{0.5F, 2.0F});

  const std::string bytes = serialize_record(record);
  const Sample back = parse_record(bytes_of(bytes), "r");
  EXPECT_EQ(back.condition.shape, record.condition.shape);
  EXPECT_EQ(back.condition.bytes, record.condition.bytes);
  EXPECT_EQ(back.image_states.bytes, record.image_states.bytes);
  const auto summary = records::summarize_example(bytes_of(bytes), "r");
  ASSERT_EQ(summary.size(), 4U);
  EXPECT_EQ(summary[0].name, "condition");
  EXPECT_EQ(summary[2].name, "encoder_hidden_states_image");

  record.condition = HostArray(Shape{DType::F32, {6, 2, 2, 2}});
  const std::string longer = serialize_record(record);
  EXPECT_THAT([&] { parse_record(bytes_of(longer), "r"); },
              ThrowsMessage<Error>(HasSubstr("frames, rows and columns must agree")));
}

TEST(Record, ReadsBackWhatItWrites) {
  Sample record;
  record.latents = HostArray(Shape{DType::BF16, {2, 1, 2, 2}});
  record.latents.bytes[3] = std::byte{7};
  record.encoder_hidden_states = HostArray::f32({1, 2}, std::vector{1.5F, -2.0F});
  record.timestep = 250;
  const std::string bytes = serialize_record(record);

  const Sample back = parse_record(bytes_of(bytes), "r");

  EXPECT_EQ(back.latents.shape, record.latents.shape);
  EXPECT_EQ(back.latents.bytes, record.latents.bytes);
  EXPECT_EQ(back.encoder_hidden_states.bytes, record.encoder_hidden_states.bytes);
  EXPECT_EQ(back.timestep, 250);
  const auto summary = records::summarize_example(bytes_of(bytes), "r");
  ASSERT_EQ(summary.size(), 3U);
  EXPECT_EQ(summary[1].name, "latents");
  EXPECT_EQ(summary[1].tensor, record.latents.shape);
  EXPECT_EQ(summary[2].kind, "int64");
}

TEST(Record, FindsShapesWithoutReadingValues) {
  for (const char* part : {"train", "bf16"}) {
    for (const auto& entry : std::filesystem::directory_iterator(
             io::golden(std::string("dataset/tfrecords/") + part))) {
      const records::TfRecordFile file = records::TfRecordFile::open(entry.path());
      for (int64_t i = 0; i < file.size(); ++i) {
        const Sample whole = parse_record(file.at(i), file.where(i));
        const RecordShapes shapes = read_record_shapes(file.unchecked(i), file.where(i));
        EXPECT_EQ(shapes.latents, whole.latents.shape);
        EXPECT_EQ(shapes.text, whole.encoder_hidden_states.shape);
      }
    }
  }
}

TEST(Record, RefusesToFindShapesInAnythingElse) {
  Sample record;
  record.latents = HostArray(Shape{DType::F32, {1, 2, 3, 4}});
  record.encoder_hidden_states = HostArray(Shape{DType::F32, {2, 3}});
  const std::string bytes = serialize_record(record);
  EXPECT_THAT([] { read_record_shapes({}, "r"); }, ThrowsMessage<Error>(HasSubstr("no feature")));
  // A truncated record is refused or, if only bytes after both shapes are missing, still gives
  // them; none reads past the end.
  for (size_t size = 0; size < bytes.size(); ++size) {
    try {
      EXPECT_EQ(read_record_shapes(bytes_of(bytes.substr(0, size)), "r").latents.dims.size(), 4U);
    } catch (const Error&) {
    }
  }
  EXPECT_THROW(read_record_shapes(bytes_of(bytes.substr(0, bytes.size() - 1)), "r"), Error);
}

TEST(Record, WithoutAFeatureIsRefused) {
  const records::TfRecordFile file =
      records::TfRecordFile::open(io::golden("dataset/tfrecords/corrupt/missing_feature.tfrec"));
  EXPECT_THAT([&] { parse_record(file.at(0), file.where(0)); },
              ThrowsMessage<Error>(HasSubstr("no feature `encoder_hidden_states`")));
}

TEST(Record, WithValuesOfAnotherKindIsRefused) {
  const auto parse = [](records::Example example) {
    return [bytes = records::serialize_example(example)] { parse_record(bytes_of(bytes), "r"); };
  };
  const auto tensor = [](Dims dims) {
    return std::vector{
        records::serialize_tensor_proto(HostArray(Shape{DType::F32, std::move(dims)}))};
  };
  EXPECT_THAT(
      parse({{"latents", std::vector{1.0F}}}),
      ThrowsMessage<Error>(HasSubstr("`latents` must be one serialized tensor but holds 0")));
  EXPECT_THAT(parse({{"latents", tensor({2, 3})}}),
              ThrowsMessage<Error>(HasSubstr("must be a floating-point tensor of 4 axes")));
  EXPECT_THAT(parse({{"latents", tensor({1, 1, 2, 2})},
                     {"encoder_hidden_states", tensor({2, 3})},
                     {"timesteps", std::vector<int64_t>{1, 2}}}),
              ThrowsMessage<Error>(HasSubstr("`timesteps` must be one integer but holds 2")));
}

}  // namespace
}  // namespace kinema::data
