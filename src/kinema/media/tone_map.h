#pragma once

// Private to the module: tone mapping of HDR pictures to SDR.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace kinema::media {

/// Transfer functions (the numbers of ITU-T H.273, table 3).
enum class Transfer : uint8_t { Standard = 0, PQ = 16, HLG = 18 };
/// PQ or HLG; Standard for all other numbers, which are not converted.
Transfer transfer_of(int h273);

/// Levels of PQ or HLG to those of an SDR display:
///
///   1. Light in cd/m2, by the EOTF of PQ, or by HLG's inverse OETF and the OOTF of a display of
///      1,000 cd/m2 (ITU-R BT.2100, tables 4 and 5).
///   2. Its range to 203 cd/m2, the reference white of BT.2408, by the EETF of BT.2390,
///      5.4.1, of the largest of red, green and blue: hues stay.
///   3. Primaries to BT.709 in linear light (BT.2087), clipped to its gamut.
///   4. Levels by the inverse of BT.1886's EOTF: L^(1 / 2.4).
class ToneMap {
 public:
  /// `primaries`: H.273, table 2: 9 (BT.2020) and 12 (P3) are converted to BT.709, others are kept.
  /// `peak`: the picture's maximum light in cd/m2, for PQ with metadata; 0: 1,000.
  ToneMap(Transfer transfer, int primaries, double peak);

  /// RGB [n, 3] with 16 bits per channel, full range, to 8 bits.
  void operator()(std::span<const uint16_t> rgb, std::span<uint8_t> out) const;

 private:
  Transfer transfer_;
  std::array<float, 9> to_bt709_;
  std::vector<float> light_;  // per level: cd/m2 for PQ; for HLG, the scene's light from 0 to 1
  // BT.2390's factor, by the square root of light relative to the peak.
  std::vector<float> gain_;
  std::vector<uint8_t> levels_;  // by the square root of light
  float peak_;
};

}  // namespace kinema::media
