#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kinema/io/pickle.h"

/// What pickles of torch and numpy call: part of Pickle::read.
namespace kinema::io {

/// Bounds of one pickle: values, and how often they are listed. A training checkpoint of a large
/// model with its optimizer has some 100,000.
inline constexpr size_t kMostPickleValues = 2'000'000;

/// The entry of a name; throws an Error with it if it is not on the list.
const PickleName& pickle_name(std::string_view module, std::string_view name,
                              const std::string& source);

/// The result of NAME(*arguments), for the opcodes REDUCE and NEWOBJ. `bytes`: the size of the
/// pickle, which bounds the bytes that are made from texts.
PickleValue pickle_call(Pickle& pickle, const PickleName& name, std::span<const PickleId> arguments,
                        size_t bytes, const std::string& source);

/// The opcode BUILD: fills a dtype or an array of numpy. The attributes of other values are not
/// read.
void pickle_build(Pickle& pickle, PickleId value, PickleId state, const std::string& source);

/// The value of a persistent id, which torch has for storages: ('storage', type, key, device,
/// elements).
PickleValue pickle_storage(const Pickle& pickle, PickleId id, const std::string& source);

}  // namespace kinema::io
