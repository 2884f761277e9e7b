// The steps of a tokenizer.json: normalisers, pre-tokenisers, templates and decoders, by their names in the file.
#pragma once

#include "tokenizer/description.h"
#include "tokenizer/json_file.h"

namespace plimsoll::tokenizer {

// All throw Error(BadData) that names what is unknown.
void read_normalisers(const Json& json, Description& into);
void read_splitters(const Json& json, Description& into);
void read_templates(const Json& json, Description& into);
void read_decoders(const Json& json, Description& into);

// A member of that type, or `fallback` where it is missing or null.
bool flag_of(const Json& json, const char* key, bool fallback, const std::string& source);
std::string text_of(const Json& json, const char* key, const std::string& fallback, const std::string& source);
int64_t number_of(const Json& json, const char* key, int64_t fallback, const std::string& source);

}  // namespace plimsoll::tokenizer
