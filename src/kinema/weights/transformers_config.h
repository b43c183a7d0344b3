#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kinema/io/json.h"

// What readers of transformers' config.json share.
namespace kinema::weights {

/// The first of `architectures`, or empty.
std::string class_of(const io::Json& config);

/// A number that may be null or absent, which both stand for `otherwise`.
int64_t int_or(const io::Json& json, std::string_view key, int64_t otherwise);
double number_or(const io::Json& json, std::string_view key, double otherwise);

/// A key that has only one value that this build knows; it may be absent.
void expect_word(const io::Json& json, std::string_view key, std::string_view word);

/// `validate`, whose Errors are said to be of this document's file.
void validated(const io::Json& document, const std::function<void()>& validate);

}  // namespace kinema::weights
