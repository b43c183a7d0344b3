#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "kinema/data/source.h"
#include "kinema/data/synthetic.h"
#include "kinema/data/tfrecord_source.h"
#include "kinema/datasets/clip_source.h"
#include "kinema/job/job.h"
#include "kinema/networks/network.h"

namespace kinema::datasets {

/// TFRecords of `kinema prepare` or MaxDiffusion, in a local folder or in a store.
struct RecordSettings {
  data::TfRecordOptions records;
  int64_t cell_side = 8;  // pixels per side of a latent cell, to compute pictures' sizes
};

/// A data set: random samples with the model's shapes, clips that this process encodes, or records.
using Dataset = std::variant<data::SyntheticOptions, ClipSettings, RecordSettings>;

/// The clips of a data set; null for other data sets.
const ClipSettings* clips_in(const Dataset& dataset);

/// A source of samples for a network, in batches of `batch`; `makes` encodes clips. Returns null if
/// a stop is requested during encoding (make_clip_source).
std::unique_ptr<data::Source> make_source(const Dataset& dataset, const networks::Sizes& model,
                                          int64_t batch, const ClipEncoders& makes,
                                          const ClipReport& report, const Job& job);

}  // namespace kinema::datasets
