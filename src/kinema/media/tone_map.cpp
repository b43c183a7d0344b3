#include "kinema/media/tone_map.h"

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"

namespace kinema::media {
namespace {

constexpr size_t kLevels = 65536;
constexpr size_t kGains = 4096;
constexpr double kWhite = 203;           // cd/m2, BT.2408, table 1
constexpr double kUsualPeak = 1000;      // cd/m2 of the display that HDR is graded on
constexpr double kHlgSystemGamma = 1.2;  // BT.2100, note 5e, at 1,000 cd/m2

// BT.2100, table 4.
constexpr double kM1 = 2610.0 / 16384;
constexpr double kM2 = 2523.0 / 4096 * 128;
constexpr double kC1 = 3424.0 / 4096;
constexpr double kC2 = 2413.0 / 4096 * 32;
constexpr double kC3 = 2392.0 / 4096 * 32;
constexpr double kPqPeak = 10000;

double pq_light(double level) {
  const double power = std::pow(level, 1 / kM2);
  return kPqPeak * std::pow(std::max(power - kC1, 0.0) / (kC2 - kC3 * power), 1 / kM1);
}

double pq_level(double light) {
  const double power = std::pow(light / kPqPeak, kM1);
  return std::pow((kC1 + kC2 * power) / (1 + kC3 * power), kM2);
}

// BT.2100, table 5: the inverse OETF, from 0 to 1.
double hlg_scene(double level) {
  constexpr double kA = 0.17883277;
  constexpr double kB = 1 - 4 * kA;
  const double c = 0.5 - kA * std::log(4 * kA);
  return level <= 0.5 ? level * level / 3 : (std::exp((level - c) / kA) + kB) / 12;
}

// BT.2390, 5.4.1, with black at 0: PQ levels relative to the peak's; unchanged below the knee.
double eetf(double level, double most) {
  const double knee = 1.5 * most - 0.5;
  if (level < knee || most >= 1) {
    return level;
  }
  const double t = (level - knee) / (1 - knee);
  const double t2 = t * t;
  const double t3 = t2 * t;
  return (2 * t3 - 3 * t2 + 1) * knee + (t3 - 2 * t2 + t) * (1 - knee) + (-2 * t3 + 3 * t2) * most;
}

// Linear light to BT.709's primaries: BT.2087, 2.2; for P3 with D65 (SMPTE EG 432-1), by the same
// derivation from both sets of chromaticities.
std::array<float, 9> to_bt709(int primaries) {
  switch (primaries) {
    case 9:
      return {1.6605F,  -0.5876F, -0.0728F, -0.1246F, 1.1329F,
              -0.0083F, -0.0182F, -0.1006F, 1.1187F};
    case 12:
      return {1.2249F, -0.2247F, 0.0F, -0.0420F, 1.0419F, 0.0F, -0.0197F, -0.0786F, 1.0979F};
    default:
      return {1, 0, 0, 0, 1, 0, 0, 0, 1};
  }
}

/// The index of x in [0, 1] in a table of `entries` over its square root, which has more entries
/// for dark values, like human vision.
size_t place(float x, size_t entries) {
  const float root = std::sqrt(std::clamp(x, 0.0F, 1.0F));
  return static_cast<size_t>(root * static_cast<float>(entries - 1) + 0.5F);
}

}  // namespace

Transfer transfer_of(int h273) {
  return h273 == static_cast<int>(Transfer::PQ)    ? Transfer::PQ
         : h273 == static_cast<int>(Transfer::HLG) ? Transfer::HLG
                                                   : Transfer::Standard;
}

ToneMap::ToneMap(Transfer transfer, int primaries, double peak)
    : transfer_(transfer),
      to_bt709_(to_bt709(primaries)),
      light_(kLevels),
      gain_(kGains),
      levels_(kLevels) {
  const bool stated = transfer == Transfer::PQ && peak > 0;
  const double brightest = stated ? std::clamp(peak, kWhite, kPqPeak) : kUsualPeak;
  peak_ = static_cast<float>(brightest);
  for (size_t i = 0; i < kLevels; ++i) {
    const double level = static_cast<double>(i) / (kLevels - 1);
    const double light = transfer == Transfer::PQ ? pq_light(level) : hlg_scene(level);
    light_[i] = static_cast<float>(light);
    const double shown = level * level;
    levels_[i] = static_cast<uint8_t>(std::lround(255 * std::pow(shown, 1 / 2.4)));
  }
  const double top = pq_level(brightest);
  const double most = pq_level(kWhite) / top;
  for (size_t i = 0; i < kGains; ++i) {
    const double root = std::max<double>(static_cast<double>(i), 0.5) / (kGains - 1);
    const double light = brightest * std::min(root * root, 1.0);
    gain_[i] = static_cast<float>(pq_light(eetf(pq_level(light) / top, most) * top) / light);
  }
}

void ToneMap::operator()(std::span<const uint16_t> rgb, std::span<uint8_t> out) const {
  check(rgb.size() == out.size() && rgb.size() % 3 == 0,
        "[image] {} values of 16 bits do not make {} of 8", rgb.size(), out.size());
  for (size_t i = 0; i < rgb.size(); i += 3) {
    std::array<float, 3> light{light_[rgb[i]], light_[rgb[i + 1]], light_[rgb[i + 2]]};
    if (transfer_ == Transfer::HLG) {
      const float luminance = 0.2627F * light[0] + 0.6780F * light[1] + 0.0593F * light[2];
      const float factor = peak_ * std::pow(luminance, static_cast<float>(kHlgSystemGamma - 1));
      for (float& each : light) {
        each *= factor;
      }
    }
    const float brightest = std::max({light[0], light[1], light[2]});
    // Values above the stated peak are reduced to the peak.
    const float within = brightest > peak_ ? peak_ / brightest : 1.0F;
    const float gain =
        gain_[place(brightest / peak_, kGains)] * within / static_cast<float>(kWhite);
    for (size_t c = 0; c < 3; ++c) {
      const float* row = &to_bt709_[c * 3];
      const float linear = gain * (row[0] * light[0] + row[1] * light[1] + row[2] * light[2]);
      out[i + c] = levels_[place(linear, kLevels)];
    }
  }
}

}  // namespace kinema::media
