#pragma once

#include "kinema/resolve/settings.h"

namespace kinema::resolve {

/// True if requests of both configurations can be made by one loaded pipeline: they differ at most
/// in keys that only a request reads (prompts, given pictures, sizes, steps, guidance, seed, output
/// files ...). False for any other difference, so that a new key reloads rather than has no effect.
bool same_model(const Settings& a, const Settings& b);

/// The same, but the weights may be others: another model or other adapters. Compiled steps are of
/// use for both.
bool same_programs(const Settings& a, const Settings& b);

/// True if both use the same devices, compiled by the same options: they also agree in all keys
/// of the run, runtime and mesh that are not a request's.
bool same_devices(const Settings& a, const Settings& b);

}  // namespace kinema::resolve
