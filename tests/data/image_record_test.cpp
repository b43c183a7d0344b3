#include "kinema/data/image_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/data/record.h"

namespace kinema::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HostArray counted(Dims dims) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  std::iota(out.as<float>().begin(), out.as<float>().end(), 0.0F);
  return out;
}

void set(records::Example& example, const char* name, const HostArray& array) {
  example[name] = std::vector{records::serialize_tensor_proto(array)};
}

/// A Flux record of a picture of 2 rows and 3 columns of tokens, with 2 channels.
records::Example flux() {
  records::Example out;
  set(out, "pixel_values", counted({6, 8}));
  set(out, "text_embeds", counted({4, 5}));
  set(out, "prompt_embeds", counted({3}));
  std::vector<float> ids;
  for (const int row : {0, 1}) {
    for (const int column : {0, 1, 2}) {
      ids.insert(ids.end(), {0.0F, static_cast<float>(row), static_cast<float>(column)});
    }
  }
  set(out, "img_ids", HostArray::f32({6, 3}, ids));
  set(out, "input_ids", HostArray(Shape{DType::F32, {4, 3}}));
  return out;
}

records::Example sdxl() {
  records::Example out;
  set(out, "pixel_values", counted({4, 2, 3}));
  set(out, "prompt_embeds", counted({7, 5}));
  set(out, "text_embeds", counted({3}));
  out["input_ids"] = std::vector{
      records::serialize_tensor_proto(HostArray::from<int32_t>(DType::S32, {2, 1}, {{1, 2}}))};
  return out;
}

Sample parse(const records::Example& example) {
  const std::string bytes = records::serialize_example(example);
  return parse_record(std::as_bytes(std::span(bytes.data(), bytes.size())), "r");
}

TEST(ImageRecord, UnpacksTheTokensOfFlux) {
  const Sample sample = parse(flux());

  EXPECT_EQ(sample.latents.shape, (Shape{DType::F32, {2, 1, 4, 6}}));
  const auto at = [&](int64_t c, int64_t y, int64_t x) {
    return sample.latents.as<float>()[static_cast<size_t>((c * 4 + y) * 6 + x)];
  };
  // Token (1, 2) is the sixth, values 40 to 47: its channels are (c, dy, dx).
  EXPECT_EQ(at(0, 2, 4), 40);
  EXPECT_EQ(at(0, 2, 5), 41);
  EXPECT_EQ(at(0, 3, 4), 42);
  EXPECT_EQ(at(1, 2, 4), 44);
  EXPECT_EQ(at(1, 3, 5), 47);
  EXPECT_EQ(sample.encoder_hidden_states.shape.dims, (Dims{4, 5}));
  EXPECT_EQ(sample.pooled.shape.dims, (Dims{3}));
}

TEST(ImageRecord, KnowsTextAndPooledOfStableDiffusionXl) {
  const Sample sample = parse(sdxl());

  EXPECT_EQ(sample.latents.shape, (Shape{DType::F32, {4, 1, 2, 3}}));
  EXPECT_EQ(sample.latents.bytes, counted({4, 2, 3}).bytes);
  EXPECT_EQ(sample.encoder_hidden_states.shape.dims, (Dims{7, 5}));
  EXPECT_EQ(sample.pooled.shape.dims, (Dims{3}));
}

TEST(ImageRecord, HasItsShapesFoundAsTheyAreStored) {
  for (const records::Example& example : {flux(), sdxl()}) {
    const std::string bytes = records::serialize_example(example);
    const RecordShapes shapes =
        read_record_shapes(std::as_bytes(std::span(bytes.data(), bytes.size())), "r");
    EXPECT_EQ(shapes.text.dims[1], 5);
    EXPECT_GT(shapes.latents.rank(), 1);
  }
}

TEST(ImageRecord, OfAnotherFormIsRefused) {
  const auto refused = [](records::Example example, const char* name, const HostArray& array) {
    set(example, name, array);
    return [example] { parse(example); };
  };
  EXPECT_THAT(refused(flux(), "pixel_values", counted({6, 6})),
              ThrowsMessage<Error>(HasSubstr("tokens of 2 x 2 latents")));
  EXPECT_THAT(refused(flux(), "pixel_values", counted({5, 8})),
              ThrowsMessage<Error>(HasSubstr("expected [5, 3]")));
  EXPECT_THAT(refused(flux(), "img_ids", counted({6, 3})),
              ThrowsMessage<Error>(HasSubstr("rows of 18 columns")));
  EXPECT_THAT(refused(flux(), "img_ids", HostArray(Shape{DType::F32, {6, 3}})),
              ThrowsMessage<Error>(HasSubstr("expected (0, 1, 0)")));
  EXPECT_THAT(refused(flux(), "prompt_embeds", counted({3, 1})),
              ThrowsMessage<Error>(HasSubstr("1 axes")));
  EXPECT_THAT(refused(sdxl(), "pixel_values", counted({4, 6})),
              ThrowsMessage<Error>(HasSubstr("3 axes")));
  records::Example without = flux();
  without.erase("text_embeds");
  EXPECT_THAT([&] { parse(without); }, ThrowsMessage<Error>(HasSubstr("no feature `text_embeds`")));
}

}  // namespace
}  // namespace kinema::data
