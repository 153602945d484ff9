#include <doctest/doctest.h>

#include "data/text/chat_encoder.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/values.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tasks/language/language_model.hpp"

// Tests trainings on conversations, and chats with trained models.
namespace tapestry {
namespace {

constexpr const char* talk_toml = R"(task = "language-model"
[data]
rules = 1
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
learning_rate = 2e-3
[train]
steps = 40
batch_size = 4
eval_every = 10
checkpoint_every = 5
log_every = 3
)";

// Each word occurs many times, so that with data.rules = 1 the validation split was learned, too.
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
    replace_in(write("talk.toml", talk_toml), "PATH", write("talks.jsonl", words()));
  }
  Finished chat(const std::string& run, const std::string& input, const Words& more = {}) const {
    return tapestry_run(Words{"chat", path(run)} + more, {.input = write("said", input)});
  }
  std::string refused(const Words& keys) const {
    const std::string message = tapestry::refused(train_here("talk", "refused", keys));
    CHECK(!fs::exists(path("refused")));
    return message;
  }
};

TEST_SUITE_BEGIN("chat");

TEST_CASE_FIXTURE(ChatFixture, "chat: a model learns to answer and to end its answers") {
  must_train("talk", "run", "train.steps=250");
  for (const auto& [asked, answer] : {std::pair("1\n", "one\n"), std::pair("3", "three\n")}) {
    const Finished finished = chat("run", asked, "--temperature 0");
    CHECK(finished.err == "");
    CHECK(finished.status == 0);
    CHECK(finished.out == answer);
  }
  // Empty lines are ignored.
  CHECK(lines_of(must(chat("run", "1\n\n3\r\n2", "--temperature 0")).out).size() == 3);
  // The validation loss is the same with and without packing.
  const Json packed = eval("run"), alone = eval("run", "data.packing=false");
  CHECK(packed["loss"].get<double>() == doctest::Approx(alone["loss"].get<double>()).epsilon(1e-5));
  CHECK(packed["loss"] < 0.1);
}

TEST_CASE_FIXTURE(ChatFixture,
                  "chat: the decoding state equals that of reading from the beginning") {
  must_train("talk", "run");
  const TrainedModel trained = load_trained(path("run"), {}, false);
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

TEST_CASE_FIXTURE(ChatFixture, "chat: a full context drops the oldest exchange with a message") {
  must_train("talk", "run");
  const Words greedy = "--temperature 0 --tokens 3";
  std::string messages;
  for (int i = 0; i < 6; ++i) messages += "1 2 3 4 1 2 3\n";
  check_says(must(chat("run", messages, greedy)).err,
             {"tapestry: the context is full: the oldest exchange is removed\n"});
  check_fails(chat("run", "1\n" + std::string(200, 'z') + "\n", greedy),
              {"standard input: line 2: the message has ",
               " tokens with the chat template; expected at most 96"});
  must(chat("run", "1\n", "--temperature 100 --seed 3"));
}

TEST_CASE_FIXTURE(ChatFixture,
                  "chat: trainings resume with the same bits on any number of threads") {
  must_train("talk", "whole", "train.threads=1");
  must_train("talk", "run", "train.threads=2 train.steps=20");
  must_train("talk", "run", "train.threads=2 --resume");
  check_same_run(*this, "whole", "run");
  write("talks.jsonl", words() + R"({"prompt": "5", "completion": "five"})");
  CHECK(train("talk", "run", "--resume train.steps=50").status == 2);
}

TEST_CASE_FIXTURE(ChatFixture, "chat: works for all kinds of models, rows and templates") {
  const std::vector<Words> all = {
      "data.packing=false model.attention=random-features",
      "data.packing=false model.kind=recurrent model.width=16",
      "model.positions=learned model.window=20 train.checkpoint_activations=true",
      "data.template=llama3 model.positions=sinusoidal model.key_value_heads=1",
      {"data.template=Q: {user}\\nA: {assistant}\\n", "train.micro_batches=2"}};
  for (const Words& keys : all) {
    CAPTURE(keys.front());
    Words few = keys + Words{"train.steps=2", "train.eval_every=2"};
    fs::remove_all(path("run"));
    must_train("talk", "run", few);
    const Finished finished = chat("run", "1\n2\n", "--tokens 4");
    CHECK(finished.err == "");
    CHECK(finished.status == 0);
  }
}

TEST_CASE_FIXTURE(ChatFixture, "bug: chat: a recurrent network without --tokens never ended") {
  must_train(
      "talk", "run",
      "data.packing=false model.kind=recurrent model.width=16 train.steps=1 train.eval_every=1");
  const auto answer = [&](const Words& more) { return chat("run", "1\n", more); };
  const Finished by_default = must(answer("--temperature 0"));
  CHECK(by_default.out == answer("--temperature 0 --tokens 1000").out);
  CHECK(by_default.out != answer("--temperature 0 --tokens 999").out);
  check_says(tapestry_run("chat --help").out, {"1000 with a recurrent network"});
}

TEST_CASE_FIXTURE(ChatFixture,
                  "chat: text beyond the context is cut or left out with one message") {
  std::string much;  // of random letters
  for (std::uint32_t i = 0, state = 1; i < 600; ++i) {
    state = state * 1103515245 + 12345;
    much += static_cast<char>('a' + (state >> 16) % 26);
  }
  write("talks.jsonl", words() + Json{{"prompt", "long"}, {"completion", much}}.dump() + "\n" +
                           Json{{"prompt", much}, {"completion", "no"}}.dump() + "\n");
  check_prints(
      tapestry_run("train {} --out {} train.steps=1", path("talk.toml"), path("run")),
      {"of 62 conversations, 2 are longer than model.context = 96 and are truncated; 1 without a "
       "remaining answer are left out\n"});
}

TEST_CASE_FIXTURE(ChatFixture, "chat: wrong data are refused in one line without a run folder") {
  check_says(
      refused("data.template="),
      {"data.template", "the tokenizer has no chat template; set data.template to \"chatml\""});
  check_says(refused({"data.template={user"}), {"data.template", "a single '{'"});
  check_says(refused("data.tokenizer="),
             {"data.tokenizer", "set this key to \"train\", or to a tokenizer.json"});
  check_says(refused("model.attention=random-features"),
             {"data.packing", "random features cannot separate the conversations of a row"});
  check_says(refused("model.kind=recurrent"),
             {"data.packing", "a recurrent network cannot separate the conversations"});
  check_says(
      refused("model.context=4"),
      {"model.context", "no conversation of the training split has an answer of weight 1 within"});
  check_says(refused({"data.path=" + path("none.jsonl")}), {"none.jsonl"});
  write("talks.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  check_says(refused({}), {"data.path", "contains one conversation; expected at least 2"});
  write("talks.jsonl", words() + "{\"text\": 1}\n");
  check_says(refused({}), {"talks.jsonl: line 61: found the fields \"text\""});
}

TEST_CASE_FIXTURE(ChatFixture, "tokenizer encode: prints conversations and their learned tokens") {
  const std::string folder = path();
  const Strings texts = {words()};
  const auto tokenizer = BytePairTokenizer::train(
      texts,
      {.vocabulary = 270, .special_tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}});
  write("tokenizer.json", tokenizer.to_json());
  write("one.jsonl", R"({"prompt": "1", "completion": "one"})");
  const auto encode = [&](const Words& more) {
    return tapestry_run("tokenizer encode one.jsonl" + more, {.folder = folder});
  };
  const Words by_chatml = "--conversations --chat-template chatml";
  const Finished finished = encode(by_chatml);
  CHECK(finished.err == "");
  const Json made = Json::parse(finished.out);
  const std::vector<std::int32_t> tokens = made["tokens"];
  std::vector<std::int32_t> learned;
  for (const std::size_t place : made["learnt"]) learned.push_back(tokens.at(place));
  CHECK(tokenizer.decode(tokens) == "user\n1\nassistant\none\n");
  CHECK(tokenizer.decode(learned) == "one");
  CHECK(learned.back() == 2);
  // The same with the template in the tokenizer's folder.
  const std::string jinja =
      R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + )"
      R"(message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{{ '<|im_start|>assistant\n' }})";
  check_says(encode("--conversations").err, {"the folder of this file has no chat template"});
  write("tokenizer_config.json", Json{{"chat_template", jinja}}.dump());
  CHECK(encode("--conversations").out == finished.out);
  write("chat_template.jinja", "[INST]{{ messages }}");
  check_says(encode("--conversations").err, {"the template is neither ChatML's nor Llama 3's"});
  check_says(encode("--conversations --json").err,
             {"--conversations: cannot be combined with --json"});
  check_says(encode("--chat-template chatml").err,
             {"--chat-template: is used only with --conversations"});
  write("one.jsonl", "{}\n");
  check_says(encode(by_chatml).err, {"one.jsonl: line 1: found the fields none"});
}

// Returns the template of an exported model and its end tokens.
struct Told {
  Json settings, config, generation;
  explicit Told(const std::string& folder)
      : settings(Json::parse(read_bytes(folder + "/tokenizer_config.json"))),
        config(Json::parse(read_bytes(folder + "/config.json"))),
        generation(Json::parse(read_bytes(folder + "/generation_config.json"))) {}
};

TEST_CASE_FIXTURE(ChatFixture, "bug: a chat model was exported without template and end token") {
  const std::string exchange = "Q: {user}\nA: {assistant}\n";
  for (const std::string& text : {std::string("chatml"), std::string("llama3"), exchange}) {
    CAPTURE(text);
    fs::remove_all(path("run"));
    must_train(
        "talk", "run",
        Words("data.template={} model.activation=gelu_tanh model.positions=learned train.steps=30",
              text));
    const std::string run = path("run"), out = path("out"), file = path("run.gguf");
    must_run("export {} --out {}", run, out);
    must_run("export {} --format gguf --out {}", run, file);
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
    // Both are imported as models with the same chat.
    const std::string said = chat("run", "1\n3\n", "--temperature 0").out;
    for (const std::string& place : {out, file}) {
      fs::remove_all(path("again"));
      must_run("import {} --out {}", place, path("again"));
      const Finished again = chat("again", "1\n3\n", "--temperature 0");
      CHECK(again.err == "");
      CHECK(again.out == said);
    }
    fs::remove_all(out);
    fs::remove(file);
  }
}

TEST_CASE_FIXTURE(ChatFixture, "bug: a tuned chat model was exported with its base's template") {
  must_train("talk", "first", "model.activation=gelu_tanh model.positions=learned train.steps=2");
  const std::string base = path("base"), out = path("out");
  must_run("export {} --out {}", path("first"), base);
  // As in a base model: another template in both files, and another end token.
  Json settings = Told(base).settings;
  const std::int32_t end_of_text = 0;
  settings["eos_token"] = {{"content", "<|endoftext|>"}};
  settings["chat_template"] = "{{ messages }}";
  settings["own"] = "kept";
  write("base/tokenizer_config.json", settings.dump());
  write("base/chat_template.jinja", "{{ messages }}");
  for (const char* name : {"base/config.json", "base/generation_config.json"}) {
    Json json = Json::parse(read(name));
    json["eos_token_id"] = end_of_text;
    json["own"] = name == std::string("base/generation_config.json") ? Json(1) : Json();
    if (json["own"].is_null()) json.erase("own");
    write(name, json.dump());
  }
  must_run("import {} --out {}", base, path("run"));
  const auto tune = [&](const std::string& run) {
    const Finished tuned =
        tapestry_run({"train", path("talk.toml"), "--from", path("run"), "--quiet", "--out",
                      path(run), "data.tokenizer=" + base + "/tokenizer.json",
                      "model.positions=learned", "model.activation=gelu_tanh", "train.steps=2"});
    REQUIRE_MESSAGE(tuned.status == 0, tuned.err);
  };
  tune("tuned");
  must_run("export {} --out {}", path("tuned"), out);
  CHECK(!fs::exists(out + "/chat_template.jinja"));
  const Told told(out);
  CHECK(told.settings["eos_token"] == "<|im_end|>");
  CHECK(told.settings["own"] == "kept");
  CHECK(chat_template_from_jinja(told.settings["chat_template"].get<std::string>())->name ==
        "chatml");
  CHECK(told.generation["own"] == 1);
  CHECK(told.generation["eos_token_id"][1] == end_of_text);
  CHECK(told.generation["eos_token_id"] == told.config["eos_token_id"]);
  const std::string file = path("tuned.gguf");
  must_run("export {} --format gguf --out {}", path("tuned"), file);
  CHECK(read_bytes(file).find("{{ messages }}") == std::string::npos);
}

TEST_CASE_FIXTURE(ChatFixture, "chat: runs without chat are refused in one line") {
  must_train("toy", "toy", "train.steps=1");
  CHECK(chat("toy", "1\n").status == 2);
  check_says(chat("toy", "1\n").err, {"generates no text; chat needs a language model"});
  must_train("text", "text", "train.steps=1");
  check_says(chat("text", "1\n").err, {"this run's model has no chat template; give --template"});
  check_says(chat("text", "1\n", "--template chatml").err,
             {"this run's model is character-level and has no chat template"});
  must_train("talk", "run", "train.steps=1");
  check_says(chat("run", "\xff\n").err, {"standard input: line 1: ", "UTF-8"});
  check_says(chat("run", "1\n", "--template llama3").err,
             {"the tokenizer has no special token <|begin_of_text|>"});
  check_says(chat("run", "1\n", {"--template", "Q: {user} A: {assistant}", "--system", "x"}).err,
             {"no {system} for the system message"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
