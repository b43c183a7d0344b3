#pragma once

namespace kinema::schedulers {

/// The quantile of the symmetric beta distribution Beta(shape, shape) at p in [0, 1].
double beta_quantile(double p, double shape);

}  // namespace kinema::schedulers
