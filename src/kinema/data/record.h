#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kinema/data/source.h"

/// Samples as records of TFRecord files: tf.train.Examples whose features are serialized tensors.
///
/// MaxDiffusion's Wan trainer has `latents` [c, f, h, w], `encoder_hidden_states` [t, d] and, in
/// evaluation sets, `timesteps`; the other arrays of a sample (kParts) are additional features.
/// Records of its image trainers are read too (image_record.h).
namespace kinema::data {

/// Reads a record; the sample's id stays empty. Throws an Error with `where` if the bytes are not
/// an Example, if a feature is missing, or if a tensor has another rank or dtype.
Sample parse_record(std::span<const std::byte> bytes, const std::string& where);

/// Stored shapes of a record's tensors, read without their values.
struct RecordShapes {
  Shape latents;
  Shape text;

  bool operator==(const RecordShapes&) const = default;
};
/// Throws an Error with `where` if these features are missing.
RecordShapes read_record_shapes(std::span<const std::byte> bytes, const std::string& where);

/// The sample as a serialized tf.train.Example, without its id; equal samples give equal bytes.
std::string serialize_record(const Sample& sample);

}  // namespace kinema::data
