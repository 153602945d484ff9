#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/tasks/language/language_model.hpp"

// What a published folder holds beside config and weights, as the metadata of a language model
// carry it from import to export.
namespace tapestry {

using Metadata = std::map<std::string, std::string>;

// The metadata that hold a file as it is.
std::string kept_file(const std::string& name);

// Adds the folder's files that are kept: tokenizer_config.json, generation_config.json and
// chat_template.jinja, where they are there. InputError above 1 MiB, or for what is not UTF-8.
void keep_files(const std::string& folder, Metadata& metadata);

// Adds the numbers of config.json's special tokens, bos_token_id and the like, and as stop tokens
// those after which a text ends: eos_token_id of generation_config.json, or else of config.json.
// InputError where these are no numbers.
void keep_special_tokens(const JsonValue& config, const std::string& folder, Metadata& metadata);
JsonValue kept_special_tokens(const Metadata& metadata);  // an object; empty: none are kept

// The tokens after which a text ends. The first is the one that other programs are told of before
// all: of a model that was trained on conversations the token that ends an answer.
std::vector<std::int32_t> end_tokens(const LanguageModel& task);

}  // namespace tapestry
