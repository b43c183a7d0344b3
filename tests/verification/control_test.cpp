#include <gtest/gtest.h>

#include <filesystem>

#include "kinema/runtime/client.h"
#include "reference.h"

namespace kinema::verification {
namespace {

const std::filesystem::path kControl = kGolden / "control";

// In the names of cases that differ in what is around the blocks of a UNet, which are scanned by
// the same code: inputs, strengths, modes, controls. `kScanned` runs that code for each of them.
const char* const kAround[] = {"sd15_unet", "sdxl_inpaint9_unet", "sdxl_controlnet"};
const char* const kScanned[] = {"sd15_unet_grad", "sdxl_controlnet_grad",
                                "sdxl_controlnet_union_two"};

const pjrt::Client& client() {
  static const pjrt::Client opened = runtime::open_client({});
  return opened;
}

// Image to image, inpainting and video to video of whole pipelines; VACE; UNets of Stable Diffusion
// 1 and 2; ControlNets.
TEST(ControlCases, MatchTheReference) {
  expect_all_match(
      run_cached(kControl, client(), {.skip = {std::begin(kAround), std::end(kAround)}}));
  // `kAround` has its name in it.
  expect_all_match(run_cached(kControl, client(), {.filter = "sdxl_controlnet_train"}));
}

TEST(ControlCases, MatchTheReferenceUnrolled) {
  for (const char* name : kAround) {
    expect_all_match(run_cached(
        kControl, client(), {.filter = name, .skip = {"sdxl_controlnet_train"}, .scan_on = false}));
  }
}

TEST(ControlCases, MatchTheReferenceScanned) {
  for (const char* name : kScanned) {
    expect_all_match(run_cached(kControl, client(), {.filter = name, .scan_off = false}));
  }
}

}  // namespace
}  // namespace kinema::verification
