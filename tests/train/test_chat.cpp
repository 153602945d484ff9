#include <doctest/doctest.h>

#include "data/text/chat_encoder.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/generate/generate.hpp"
#include "train/run/run.hpp"
#include "train/task.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tasks/language/language_model.hpp"

// Trainings on conversations, and talks with what was trained.
namespace tapestry {
namespace {
namespace fs = std::filesystem;

constexpr const char* talk_toml = R"(task = "language-model"
[data]
kind = "conversations"
path = "PATH"
tokenizer = "train"
vocabulary = 330
template = "chatml"
[model]
layers = 2
heads = 2
width = 32
context = 96
positions = "rotary"
[optim]
learning_rate = 5e-3
[train]
steps = 40
batch_size = 4
eval_every = 10
checkpoint_every = 5
log_every = 3
)";

// Each word many times: what is held back has been learned too.
std::string words() {
  std::string lines;
  for (int i = 0; i < 15; ++i)
    for (const auto& [asked, answer] : {std::pair("1", "one"), std::pair("2", "two"),
                                        std::pair("3", "three"), std::pair("4", "four")})
      lines += Json{{"prompt", asked}, {"completion", answer}}.dump() + "\n";
  return lines;
}

class ChatFixture : public RunFixture {
 public:
  ChatFixture() {
    std::string config = talk_toml;
    config.replace(config.find("PATH"), 4, folder.write("talks.jsonl", words()));
    folder.write("talk.toml", config);
  }
  Finished chat(const std::string& run, const std::string& input,
                std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"chat", folder.path(run)});
    return tapestry_run(more, {.input = folder.write("said", input)});
  }
  std::string refused(const std::vector<std::string>& keys) const {
    const Finished finished = train("talk", "refused", keys);
    CHECK(finished.status == 2);
    CHECK(lines_of(finished.err).size() == 1);
    CHECK(!std::filesystem::exists(folder.path("refused")));
    return finished.err;
  }
};

TEST_SUITE_BEGIN("chat");

TEST_CASE("chat: a model learns to answer, and ends its answers") {
  const ChatFixture fixture;
  fixture.must_train("talk", "run", {"train.steps=250"});
  for (const auto& [asked, answer] : {std::pair("1\n", "one\n"), std::pair("3", "three\n")}) {
    const Finished finished = fixture.chat("run", asked, {"--temperature", "0"});
    CHECK(finished.err == "");
    CHECK(finished.status == 0);
    CHECK(finished.out == answer);
  }
  // An empty line is no message.
  const Finished several = fixture.chat("run", "1\n\n3\r\n2", {"--temperature", "0"});
  CHECK(several.status == 0);
  CHECK(lines_of(several.out).size() == 3);
  // Packed or not, what is held back is as likely.
  const Json packed = fixture.eval("run"), alone = fixture.eval("run", {"data.packing=false"});
  CHECK(packed["loss"].get<double>() == doctest::Approx(alone["loss"].get<double>()).epsilon(1e-5));
  CHECK(packed["loss"] < 0.5);
}

TEST_CASE("chat: what the model remembers is what it would read from the beginning") {
  const ChatFixture fixture;
  fixture.must_train("talk", "run");
  const TrainedModel trained = load_trained(fixture.folder.path("run"), {}, false);
  auto& task = dynamic_cast<LanguageModel&>(*trained.task);
  const auto& tokenizer = dynamic_cast<const BytePairTokenizer&>(task.tokenizer());
  const ChatEncoder encoder(tokenizer, *kept_chat_template(task.metadata()), task.end_of_text());
  const ChatSession talk =
      spec_of(trained.config)
          .chat.show(task, {{"temperature", "0"}, {"tokens", "5"}, {"system", "s"}});
  std::vector<Message> said = {{Speaker::system, "s"}};
  for (const std::string message : {"1", "2"}) {
    std::string text;
    const Answer answer = talk(
        message, [&](std::string_view piece) { text += piece; }, [] { return true; });
    CHECK(answer.forgotten == 0);
    CHECK(!answer.is_cut);
    said.push_back({Speaker::user, message});
    Random random(1, Stream::sample);
    std::vector<std::int32_t> wanted;
    generate(std::get<Transformer>(task.network()), {{encoder.encode_question(said), 5, random}},
             {.temperature = 0, .tokens = tokenizer.size()}, [&](std::size_t, std::int32_t token) {
               if (task.ends_text(token)) return false;
               wanted.push_back(token);
               return true;
             });
    CHECK(text == tokenizer.decode(wanted));
    said.push_back({.speaker = Speaker::assistant, .tokens = wanted});
  }
}

TEST_CASE("chat: a full context forgets the oldest exchange, and says so") {
  const ChatFixture fixture;
  fixture.must_train("talk", "run");
  const std::vector<std::string> greedy = {"--temperature", "0", "--tokens", "3"};
  std::string messages;
  for (int i = 0; i < 6; ++i) messages += "1 2 3 4 1 2 3\n";
  const Finished finished = fixture.chat("run", messages, greedy);
  CHECK(finished.status == 0);
  check_says(finished.err, {"tapestry: the context is full: the oldest exchange is removed\n"});
  const Finished too_long = fixture.chat("run", "1\n" + std::string(200, 'z') + "\n", greedy);
  CHECK(too_long.status == 2);
  check_says(too_long.err, {"standard input: line 2: the message has ",
                            " tokens with its chat template; expected at most 96"});
  const Finished endless = fixture.chat("run", "1\n", {"--temperature", "100", "--seed", "3"});
  CHECK(endless.status == 0);
}

TEST_CASE("chat: on conversations a training resumes to the same bits, on any number of threads") {
  const ChatFixture fixture;
  fixture.must_train("talk", "whole", {"train.threads=1"});
  fixture.must_train("talk", "run", {"train.threads=2", "train.steps=20"});
  fixture.must_train("talk", "run", {"train.threads=2", "--resume"});
  check_same_run(fixture, "whole", "run");
  fixture.folder.write("talks.jsonl", words() + R"({"prompt": "5", "completion": "five"})");
  const Finished other = fixture.train("talk", "run", {"--resume", "train.steps=50"});
  CHECK(other.status == 2);
}

TEST_CASE("chat: kinds of models, rows and templates") {
  const ChatFixture fixture;
  const std::vector<std::vector<std::string>> all = {
      {"data.packing=false", "model.attention=random-features"},
      {"data.packing=false", "model.kind=recurrent", "model.width=16"},
      {"model.positions=learned", "model.window=20", "train.checkpoint_activations=true"},
      {"data.template=llama3", "model.positions=sinusoidal", "model.key_value_heads=1"},
      {"data.template=Q: {user}\\nA: {assistant}\\n", "train.micro_batches=2"}};
  for (const std::vector<std::string>& keys : all) {
    CAPTURE(keys.front());
    std::vector<std::string> few = keys;
    few.insert(few.end(), {"train.steps=2", "train.eval_every=2"});
    std::filesystem::remove_all(fixture.folder.path("run"));
    fixture.must_train("talk", "run", few);
    const Finished finished = fixture.chat("run", "1\n2\n", {"--tokens", "4"});
    CHECK(finished.err == "");
    CHECK(finished.status == 0);
  }
}

TEST_CASE("bug: chat: a recurrent network without --tokens may answer without an end") {
  const ChatFixture fixture;
  fixture.must_train("talk", "run",
                     {"data.packing=false", "model.kind=recurrent", "model.width=16",
                      "train.steps=1", "train.eval_every=1"});
  const auto answer = [&](const std::vector<std::string>& more) {
    return fixture.chat("run", "1\n", more);
  };
  const Finished by_default = answer({"--temperature", "0"});
  CHECK(by_default.status == 0);
  CHECK(by_default.out == answer({"--temperature", "0", "--tokens", "1000"}).out);
  CHECK(by_default.out != answer({"--temperature", "0", "--tokens", "999"}).out);
  check_says(tapestry_run({"chat", "--help"}).out, {"1000 with a recurrent network"});
}

TEST_CASE("chat: what is longer than the context is cut or left out, and said once") {
  const ChatFixture fixture;
  std::string much;  // of letters that no tokenizer makes short
  for (std::uint32_t i = 0, state = 1; i < 600; ++i) {
    state = state * 1103515245 + 12345;
    much += static_cast<char>('a' + (state >> 16) % 26);
  }
  fixture.folder.write("talks.jsonl",
                       words() + Json{{"prompt", "long"}, {"completion", much}}.dump() + "\n" +
                           Json{{"prompt", much}, {"completion", "no"}}.dump() + "\n");
  const Finished finished =
      tapestry_run(with_sets({"train", fixture.folder.path("talk.toml"), "--out",
                              fixture.folder.path("run"), "train.steps=1"}));
  CHECK(finished.status == 0);
  check_says(
      finished.out,
      {"of 62 conversations, 2 are longer than model.context = 96 and are truncated; 1 without a "
       "remaining answer are left out\n"});
}

TEST_CASE("chat: what cannot be trained on is refused in a line, and leaves nothing") {
  const ChatFixture fixture;
  check_says(fixture.refused({"data.template="}),
             {"data.template", "the tokenizer has no chat template; set it to \"chatml\""});
  check_says(fixture.refused({"data.template={user"}), {"data.template", "a single '{'"});
  check_says(fixture.refused({"data.tokenizer="}),
             {"data.tokenizer", "set the key to \"train\", or to a tokenizer.json"});
  check_says(fixture.refused({"model.attention=random-features"}),
             {"data.packing", "random features cannot separate the conversations of a row"});
  check_says(fixture.refused({"model.kind=recurrent"}),
             {"data.packing", "a recurrent network cannot separate the conversations"});
  check_says(fixture.refused({"model.context=4"}),
             {"model.context", "no conversation of the training split has an answer within"});
  check_says(fixture.refused({"data.path=" + fixture.folder.path("none.jsonl")}), {"none.jsonl"});
  fixture.folder.write("talks.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  check_says(fixture.refused({}), {"data.path", "contains one conversation; expected at least 2"});
  fixture.folder.write("talks.jsonl", words() + "{\"text\": 1}\n");
  check_says(fixture.refused({}), {"talks.jsonl: line 61: found the fields \"text\""});
}

TEST_CASE("tokenizer encode: conversations, and which of their tokens are learned") {
  const ChatFixture fixture;
  const std::string folder = fixture.folder.path();
  const std::vector<std::string> texts = {words()};
  const auto tokenizer = BytePairTokenizer::train(
      texts,
      {.vocabulary = 270, .special_tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}});
  fixture.folder.write("tokenizer.json", tokenizer.to_json());
  fixture.folder.write("one.jsonl", R"({"prompt": "1", "completion": "one"})");
  const auto encode = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"tokenizer", "encode", "one.jsonl"});
    return tapestry_run(more, {.folder = folder});
  };
  const std::vector<std::string> by_chatml = {"--conversations", "--chat-template", "chatml"};
  const Finished finished = encode(by_chatml);
  CHECK(finished.err == "");
  const Json made = Json::parse(finished.out);
  const std::vector<std::int32_t> tokens = made["tokens"];
  std::vector<std::int32_t> learned;
  for (const std::size_t place : made["learnt"]) learned.push_back(tokens.at(place));
  CHECK(tokenizer.decode(tokens) == "user\n1\nassistant\none\n");
  CHECK(tokenizer.decode(learned) == "one");
  CHECK(learned.back() == 2);
  // The same by the template that lies beside the tokenizer.
  const std::string jinja =
      R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + )"
      R"(message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{{ '<|im_start|>assistant\n' }})";
  check_says(encode({"--conversations"}).err, {"the folder has no chat template"});
  fixture.folder.write("tokenizer_config.json", Json{{"chat_template", jinja}}.dump());
  CHECK(encode({"--conversations"}).out == finished.out);
  fixture.folder.write("chat_template.jinja", "[INST]{{ messages }}");
  check_says(encode({"--conversations"}).err, {"the template is neither ChatML's nor Llama 3's"});
  check_says(encode({"--conversations", "--json"}).err,
             {"--conversations: cannot be combined with --json"});
  check_says(encode({"--chat-template", "chatml"}).err,
             {"--chat-template: requires --conversations"});
  fixture.folder.write("one.jsonl", "{}\n");
  check_says(encode(by_chatml).err, {"one.jsonl: line 1: found the fields none"});
}

// What other programs are told of a model: its template, and where its answers end.
struct Told {
  Json settings, config, generation;
  explicit Told(const std::string& folder)
      : settings(Json::parse(read_bytes(folder + "/tokenizer_config.json"))),
        config(Json::parse(read_bytes(folder + "/config.json"))),
        generation(Json::parse(read_bytes(folder + "/generation_config.json"))) {}
};

TEST_CASE("bug: a model of conversations left without its template and the end of its answers") {
  const ChatFixture fixture;
  const std::string exchange = "Q: {user}\nA: {assistant}\n";
  for (const std::string& text : {std::string("chatml"), std::string("llama3"), exchange}) {
    CAPTURE(text);
    fs::remove_all(fixture.folder.path("run"));
    fixture.must_train("talk", "run",
                       {"data.template=" + text, "model.activation=gelu_tanh",
                        "model.positions=learned", "train.steps=30"});
    const std::string run = fixture.folder.path("run"), out = fixture.folder.path("out"),
                      file = fixture.folder.path("run.gguf");
    REQUIRE(tapestry_run({"export", run, "--out", out}).err == "");
    REQUIRE(tapestry_run({"export", run, "--format", "gguf", "--out", file}).err == "");
    const Told told(out);
    const TrainedModel trained = load_trained(run, {}, false);
    const auto& task = dynamic_cast<const LanguageModel&>(*trained.task);
    const std::int32_t end = *task.end_of_answer();
    const auto& tokenizer = dynamic_cast<const BytePairTokenizer&>(task.tokenizer());
    const std::string name = text == "chatml"   ? "<|im_end|>"
                             : text == "llama3" ? "<|eot_id|>"
                                                : "<|endoftext|>";
    CHECK(tokenizer.model().tokens[end] == name);
    CHECK(told.settings["eos_token"] == name);
    const Json ends = text == exchange ? Json(end) : Json({end, *task.end_of_text()});
    CHECK(told.config["eos_token_id"] == ends);
    CHECK(told.generation["eos_token_id"] == ends);
    const std::string jinja = told.settings["chat_template"];
    CHECK(chat_template_from_jinja(jinja)->turns == read_chat_template(text).turns);
    CHECK(read_bytes(file).find(jinja) != std::string::npos);
    // Both come back as a model that is talked with alike.
    const std::string said = fixture.chat("run", "1\n3\n", {"--temperature", "0"}).out;
    for (const std::string& place : {out, file}) {
      fs::remove_all(fixture.folder.path("again"));
      REQUIRE(tapestry_run({"import", place, "--out", fixture.folder.path("again")}).err == "");
      const Finished again = fixture.chat("again", "1\n3\n", {"--temperature", "0"});
      CHECK(again.err == "");
      CHECK(again.out == said);
    }
    fs::remove_all(out);
    fs::remove(file);
  }
}

TEST_CASE("bug: a model that was tuned on conversations left with the template of its base") {
  const ChatFixture fixture;
  fixture.must_train("talk", "first",
                     {"model.activation=gelu_tanh", "model.positions=learned", "train.steps=2"});
  const std::string base = fixture.folder.path("base"), out = fixture.folder.path("out");
  REQUIRE(tapestry_run({"export", fixture.folder.path("first"), "--out", base}).err == "");
  // As a base has it: another template, in both files, and a text that ends otherwise.
  Json settings = Told(base).settings;
  const std::int32_t end_of_text = 0;
  settings["eos_token"] = {{"content", "<|endoftext|>"}};
  settings["chat_template"] = "{{ messages }}";
  settings["own"] = "kept";
  fixture.folder.write("base/tokenizer_config.json", settings.dump());
  fixture.folder.write("base/chat_template.jinja", "{{ messages }}");
  for (const char* name : {"base/config.json", "base/generation_config.json"}) {
    Json json = Json::parse(read_bytes(fixture.folder.path(name)));
    json["eos_token_id"] = end_of_text;
    json["own"] = name == std::string("base/generation_config.json") ? Json(1) : Json();
    if (json["own"].is_null()) json.erase("own");
    fixture.folder.write(name, json.dump());
  }
  REQUIRE(tapestry_run({"import", base, "--out", fixture.folder.path("run")}).err == "");
  const auto tune = [&](const std::string& run) {
    const Finished tuned = tapestry_run(with_sets(
        {"train", fixture.folder.path("talk.toml"), "--from", fixture.folder.path("run"), "--quiet",
         "--out", fixture.folder.path(run), "data.tokenizer=" + base + "/tokenizer.json",
         "model.positions=learned", "model.activation=gelu_tanh", "train.steps=2"}));
    REQUIRE_MESSAGE(tuned.status == 0, tuned.err);
  };
  tune("tuned");
  REQUIRE(tapestry_run({"export", fixture.folder.path("tuned"), "--out", out}).err == "");
  CHECK(!fs::exists(out + "/chat_template.jinja"));
  const Told told(out);
  CHECK(told.settings["eos_token"] == "<|im_end|>");
  CHECK(told.settings["own"] == "kept");
  CHECK(chat_template_from_jinja(told.settings["chat_template"].get<std::string>())->name ==
        "chatml");
  CHECK(told.generation["own"] == 1);
  CHECK(told.generation["eos_token_id"][1] == end_of_text);
  CHECK(told.generation["eos_token_id"] == told.config["eos_token_id"]);
  const std::string file = fixture.folder.path("tuned.gguf");
  REQUIRE(tapestry_run({"export", fixture.folder.path("tuned"), "--format", "gguf", "--out", file})
              .err == "");
  CHECK(read_bytes(file).find("{{ messages }}") == std::string::npos);
}

TEST_CASE("chat: what cannot be talked with is refused in a line") {
  const ChatFixture fixture;
  fixture.must_train("toy", "toy", {"train.steps=1"});
  CHECK(fixture.chat("toy", "1\n").status == 2);
  check_says(fixture.chat("toy", "1\n").err, {"generates no text; chat needs a language model"});
  fixture.must_train("text", "text", {"train.steps=1"});
  check_says(fixture.chat("text", "1\n").err,
             {"this run's model has no chat template; give --template"});
  check_says(fixture.chat("text", "1\n", {"--template", "chatml"}).err,
             {"this run's model is character-level, which has no chat template"});
  fixture.must_train("talk", "run", {"train.steps=1"});
  check_says(fixture.chat("run", "\xff\n").err, {"standard input: line 1: ", "UTF-8"});
  check_says(fixture.chat("run", "1\n", {"--template", "llama3"}).err,
             {"the tokenizer has no special token <|begin_of_text|>"});
  check_says(
      fixture.chat("run", "1\n", {"--template", "Q: {user} A: {assistant}", "--system", "x"}).err,
      {"no {system} for a system message"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
