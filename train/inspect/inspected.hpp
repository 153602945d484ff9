#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The types that inspectors return, declared. Their headers define them: values.hpp,
// report_panels.hpp, recognized.hpp and onnx/onnx_graph.hpp.
namespace tapestry {

struct Answer;
struct LatentCodes;
struct Predictor;
struct Recognized;
struct UserData;
struct Sample;

// A function that receives a text in pieces of whole characters.
using TextSink = std::function<void(std::string_view piece)>;

// A function that returns the text of any number of token ids. The task must outlive the function.
using TokenDecoder = std::function<std::string(std::span<const std::int32_t> tokens)>;

// A function that appends a message to a chat and passes the generated answer to `sink`, for as
// long as `continues` returns true. It stores the earlier messages. Throws InputError if the
// message is not UTF-8 or exceeds the model's context; the chat is then unchanged. The task must
// outlive the function.
using ChatSession = std::function<Answer(const std::string& message, const TextSink& sink,
                                         const std::function<bool()>& continues)>;

struct AttentionMap;
using AttentionMaps = std::vector<AttentionMap>;

struct ReadExamples;
struct LatentSpace;
struct Translations;
struct ForecastWindows;
struct PlacedGraphs;
struct RecallByAge;
struct TablePanel;
struct LabeledPictures;
using ReportPanel = std::variant<ReadExamples, LatentSpace, Translations, ForecastWindows,
                                 PlacedGraphs, RecallByAge, TablePanel, LabeledPictures>;
using ReportPanels = std::vector<ReportPanel>;

namespace onnx {

class Graph;
// The models of a run. Each becomes a file with its graph's name.
using Models = std::vector<std::shared_ptr<Graph>>;

}  // namespace onnx
}  // namespace tapestry
