#pragma once

#include <cstdint>
#include <vector>

#include "kinema/config/field.h"

namespace kinema::config {

/// Picture sizes that SDXL is conditioned on.
struct PictureSizeConfig {
  std::vector<int64_t> original_size;
  std::vector<int64_t> crops_coords_top_left;
  std::vector<int64_t> target_size;
  std::vector<int64_t> negative_original_size;
  std::vector<int64_t> negative_crops_coords_top_left;
  std::vector<int64_t> negative_target_size;

  bool operator==(const PictureSizeConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit(
        "original_size", self.original_size, UNRELATED,
        {.help =
             "sdxl micro-conditioning: [height, width] before cropping; empty: the generated size",
         .needs = {Needs::PICTURE_SIZES},
         .share = Share::YES,
         .reload = Reload::NOTHING});
    visit("crops_coords_top_left", self.crops_coords_top_left, UNRELATED,
          {.help = "sdxl micro-conditioning: [top, left] of the crop; empty: [0, 0]",
           .needs = {Needs::PICTURE_SIZES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("target_size", self.target_size, UNRELATED,
          {.help =
               "sdxl micro-conditioning: [height, width] of the result; empty: the generated size",
           .needs = {Needs::PICTURE_SIZES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("negative_original_size", self.negative_original_size, UNRELATED,
          {.help = "sdxl micro-conditioning: original_size of the negative prompt",
           .with = "negative_target_size",
           .needs = {Needs::PICTURE_SIZES, Needs::TWO_PASSES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("negative_crops_coords_top_left", self.negative_crops_coords_top_left, UNRELATED,
          {.help = "sdxl micro-conditioning: crops_coords_top_left of the negative prompt",
           .with = "negative_original_size",
           .needs = {Needs::PICTURE_SIZES, Needs::TWO_PASSES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("negative_target_size", self.negative_target_size, UNRELATED,
          {.help = "sdxl micro-conditioning: target_size of the negative prompt",
           .with = "negative_original_size",
           .needs = {Needs::PICTURE_SIZES, Needs::TWO_PASSES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
  }
};

}  // namespace kinema::config
