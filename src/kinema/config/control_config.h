#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/field.h"
#include "kinema/config/given.h"

namespace kinema::config {

/// ControlNets and Redux, and control pictures that are computed.
struct ControlConfig {
  std::vector<std::string> controlnet;
  std::vector<std::string> control_kind{"given"};
  std::vector<int64_t> control_type;
  std::vector<double> control_scale;
  std::vector<double> control_start;
  std::vector<double> control_end;
  bool guess_mode = false;
  int64_t canny_low = 100;
  int64_t canny_high = 200;
  double control_blur = 9.0;
  std::string redux;
  std::vector<std::string> redux_image;
  std::vector<double> redux_scale{1.0};

  bool operator==(const ControlConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit(
        "controlnet", self.controlnet, UNRELATED,
        {.help = "sd, sdxl, z-image: ControlNets that make the result follow control_image, one or "
                 "a list (Z-Image: one): folders, files or hub ids",
         .or_item = true,
         .needs = {Needs::IMAGES},
         .share = Share::FILE});
    visit("control_kind", self.control_kind, UNRELATED,
          {.help = "what is made of control_image before a ControlNet sees it, for all or each: "
                   "given (as it is), canny (edges), tile, blur, grey; others need a program such "
                   "as controlnet_aux",
           .min_items = 1,
           .or_item = true,
           .with = "controlnet",
           .share = Share::YES});
    visit("control_type", self.control_type, UNRELATED,
          {.help = "union ControlNets: the number of each picture's kind; of xinsir's 0 poses, 1 "
                   "depth, 2 soft edges and scribbles, 3 edges and lines, 4 normals, 5 segments, 6 "
                   "tile, 7 repaint",
           .min = 0,
           .max = 63,
           .or_item = true,
           .with = "controlnet",
           .share = Share::YES});
    visit(
        "control_scale", self.control_scale, UNRELATED,
        {.help = "factor of control: of what each ControlNet adds, or each block of a control branch "
                 "(Z-Image, VACE); one for all or one for each; not given: 1",
         .min = -100,
         .max = 100,
         .or_item = true,
         .share = Share::YES,
         .reload = Reload::NOTHING});
    visit("control_start", self.control_start, UNRELATED,
          {.help =
               "part of the steps before which ControlNets and VACE's control branch add nothing, "
               "one for all or one for each; not given: 0",
           .min = 0,
           .max = 1,
           .or_item = true,
           .share = Share::YES});
    visit("control_end", self.control_end, UNRELATED,
          {.help = "part of the steps after which they add nothing; not given: 1",
           .min = 0,
           .max = 1,
           .or_item = true,
           .share = Share::YES});
    visit("redux", self.redux, UNRELATED,
          {.help = "flux: folder or hub id of FLUX.1 Redux, which makes tokens of redux_image that "
                   "follow the prompt's",
           .needs = {Needs::IMAGES},
           .share = Share::FILE});
    visit("redux_image", self.redux_image, UNRELATED,
          {.help = "pictures of which the result is a variation or a mixture, one or a list",
           .or_item = true,
           .with = "redux",
           .share = Share::FILE});
    visit("redux_scale", self.redux_scale, UNRELATED,
          {.help = "factor of the prompt and of each picture's tokens, which are summed over the "
                   "pictures, one for all or one for each",
           .min = -100,
           .max = 100,
           .min_items = 1,
           .or_item = true,
           .with = "redux",
           .share = Share::YES});
    visit("guess_mode", self.guess_mode, UNRELATED,
          {.help = "ControlNets recognise the picture without a prompt: what they add rises from a "
                   "tenth to all, and the negative prompt's pass does not see it",
           .with = "controlnet",
           .share = Share::YES});
    visit("canny_low", self.canny_low, UNRELATED,
          {.help = "control_kind=canny: change of brightness at which an edge goes on",
           .min = 0,
           .max = 10000,
           .with = "controlnet",
           .share = Share::YES});
    visit("canny_high", self.canny_high, UNRELATED,
          {.help = "control_kind=canny: change of brightness at which an edge begins",
           .min = 0,
           .max = 10000,
           .with = "controlnet",
           .share = Share::YES});
    visit("control_blur", self.control_blur, UNRELATED,
          {.help = "control_kind=blur: standard deviation in pixels",
           .max = 256,
           .above = 0,
           .with = "controlnet",
           .share = Share::YES});
  }
};

}  // namespace kinema::config
