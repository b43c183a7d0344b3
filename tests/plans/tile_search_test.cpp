#include "kinema/plans/tile_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/scratch.h"
#include "kinema/io/json.h"
#include "kinema/kernels/block_sizes.h"
#include "kinema/model_source/model_options.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::plans {
namespace {

using ::testing::HasSubstr;

config::Loaded tiny(const std::string& attention, const std::string& folder) {
  config::Loaded loaded;
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"pretrained_model_name_or_path", ""},
                                                        {"autoencoder", "space_to_depth"},
                                                        {"space_to_depth_block", "4"},
                                                        {"text_encoder", "hashed"},
                                                        {"num_layers", "1"},
                                                        {"num_attention_heads", "2"},
                                                        {"attention_head_dim", "16"},
                                                        {"ffn_dim", "32"},
                                                        {"text_dim", "16"},
                                                        {"freq_dim", "32"},
                                                        {"height", "64"},
                                                        {"width", "64"},
                                                        {"num_frames", "4"},
                                                        {"max_sequence_length", "4"},
                                                        {"flash_min_seq_length", "0"},
                                                        {"enable_tile_search", "true"},
                                                        {"tile_search_iters", "1"},
                                                        {"attention", attention},
                                                        {"tile_search_out", folder}}) {
    config::set(loaded, key, value);
  }
  return loaded;
}

TEST(TileSearch, TakesTheFastestOfWhatItTimed) {
  const pjrt::Client client = pjrt::cpu_client();
  const io::Scratch scratch;
  const std::string folder = (scratch / "tiles").string();
  const config::Loaded given = tiny("flash", folder);
  std::string said;
  Observer observer;
  observer.on_line = [&](const std::string& line) { said += line; };

  const config::Loaded loaded =
      with_fastest_tiles(given, PlanMode::TRAIN, client, Job(observer, {}));

  const kernels::FlashBlockSizes sizes =
      model_source::model_options(loaded.config).attention.blocks;
  EXPECT_TRUE(sizes.asked);
  EXPECT_THAT(said, HasSubstr(kernels::to_string(sizes)));
  const io::Json tables = io::Json::read(scratch / "tiles" / "tiles.json");
  EXPECT_EQ(tables.at("best").as_string(), kernels::to_string(sizes));
  ASSERT_EQ(tables.at("kernels").items().size(), 3);  // forward, dk and dv, dq
  double before = 0;
  for (const io::Json& tile : tables.at("kernels").items()[0].at("tiles").items()) {
    EXPECT_GE(tile.at("seconds").as_number(), before);
    before = tile.at("seconds").as_number();
  }
  EXPECT_GT(before, 0);
}

TEST(TileSearch, SaysWhereThereIsNothingToChoose) {
  const pjrt::Client client = pjrt::cpu_client();
  const config::Loaded given = tiny("dot_product", "");
  std::string said;
  Observer observer;
  observer.on_notice = [&](const std::string& line) { said += line; };
  const config::Loaded loaded =
      with_fastest_tiles(given, PlanMode::TRAIN, client, Job(observer, {}));
  EXPECT_THAT(said, HasSubstr("dot_product has no blocks"));
  EXPECT_FALSE(model_source::model_options(loaded.config).attention.blocks.asked);
}

}  // namespace
}  // namespace kinema::plans
