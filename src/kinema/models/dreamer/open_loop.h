#pragma once

#include "kinema/models/dreamer/agent.h"

namespace kinema::dreamer {

/// What the world model predicts of the images of a batch: the first half of the steps is observed,
/// the rest imagined with the actions that were taken. By image, [rows, t, rows, columns, c] in 0
/// .. 1, of the first 6 rows of the batch. `posterior` draws the steps that are observed, `prior`
/// the others.
TensorMap open_loop(const Agent& agent, const Batch& batch, const Draws& posterior,
                    const Draws& prior);

/// A video U8 [t + rest, 3 rows + 4, n (columns + 4), c] of the true images U8 and the predicted
/// ones, [n, t, rows, columns, c]: below each other truth, prediction and their difference, in a
/// border that is green while steps are observed and red while they are imagined. At the end,
/// `rest` black frames, t but 10 at most. The colours need 3 channels; a border of other images is
/// bright while steps are observed.
Tensor open_loop_video(Tensor truth, Tensor prediction);

}  // namespace kinema::dreamer
