#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kinema/data/source.h"

/// Samples as records of TFRecord files: tf.train.Examples whose features are serialized tensors.
///
/// Those of MaxDiffusion's Wan trainer are `latents` [c, f, h, w], `encoder_hidden_states` [t, d]
/// and, in evaluation sets, `timesteps`; the other arrays of a sample (kParts) are features beside
/// them. Records of its trainers of images are read too (image_record.h).
namespace kinema::data {

/// Reads a record; its id stays empty. Throws an Error with `where` for bytes that are no Example,
/// a missing feature, or a tensor of another rank or type.
Sample parse_record(std::span<const std::byte> bytes, const std::string& where);

/// Shapes of a record's tensors, found without reading their values: as they are stored.
struct RecordShapes {
  Shape latents;
  Shape text;

  bool operator==(const RecordShapes&) const = default;
};
/// Throws an Error with `where` where parse_record would for want of these.
RecordShapes read_record_shapes(std::span<const std::byte> bytes, const std::string& where);

/// The sample as a serialized tf.train.Example; equal samples give equal bytes. Its id is left out.
std::string serialize_record(const Sample& sample);

}  // namespace kinema::data
