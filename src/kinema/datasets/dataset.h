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

/// TFRecords that `kinema prepare` or MaxDiffusion wrote, in a folder of this machine or in a
/// store.
struct RecordSettings {
  data::TfRecordOptions records;
  int64_t cell_side = 8;  // pixels a side of a latent cell: what sizes of pictures are counted by
};

/// A data set: random samples of the model's shapes, clips that are encoded here, or records.
using Dataset = std::variant<data::SyntheticOptions, ClipSettings, RecordSettings>;

/// The clips of a data set; null for one that has none.
const ClipSettings* clips_in(const Dataset& dataset);

/// Samples for a network, of which `batch` make a batch; `clips` are encoded by `makes`. Null when
/// the job is told to stop while they are (make_clip_source).
std::unique_ptr<data::Source> make_source(const Dataset& dataset, const networks::Sizes& model,
                                          int64_t batch, const ClipEncoders& makes,
                                          const ClipReport& report, const Job& job);

}  // namespace kinema::datasets
