#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kinema/io/json.h"

// Functions for readers of transformers' config.json.
namespace kinema::model_files {

/// The first of `architectures`, or empty.
std::string class_of(const io::Json& config);

/// A number that may be null or missing: then it is `otherwise`.
int64_t int_or(const io::Json& json, std::string_view key, int64_t otherwise);
double number_or(const io::Json& json, std::string_view key, double otherwise);

/// Throws an Error if a key, which may be missing, has another value than `word`.
void expect_value(const io::Json& json, std::string_view key, std::string_view word);

/// Calls `validate` and adds this document's file name to its Errors.
void validated(const io::Json& document, const std::function<void()>& validate);

}  // namespace kinema::model_files
