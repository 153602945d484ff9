#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "autograd/ops.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/hours.hpp"
#include "tests/support/onnx_file.hpp"
#include "tests/support/onnx_reference.hpp"
#include "tests/support/process.hpp"
#include "tests/support/small.hpp"
#include "tests/support/small_data.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/config/config_document.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/onnx/onnx_file.hpp"
#include "train/inspect/onnx/ops.hpp"
#include "train/task_spec.hpp"
#include "train/tools/convert/export.hpp"

// What is exported as ONNX: how its files are made, and that what they say is what the model
// computes, by operators that are written down once more (tests/support/onnx_evaluate.cpp).
// onnxruntime is asked in tests/interop/.
namespace tapestry {
namespace {

TrainedModel untrained(const std::string& text, const Words& settings) {
  Config config = parse_config(text, "config", settings);
  std::unique_ptr<Task> task = make_task({.config = config});
  move_parameters(task->model());
  return {std::move(config), std::move(task), {}};
}

std::vector<OnnxModel> exported(const TrainedModel& trained, const TemporaryFolder& folder) {
  std::vector<OnnxModel> models;
  const std::string out = folder.path("exported");
  fs::remove_all(out);
  for (const std::string& file : export_onnx(trained, out))
    models.push_back(parse_onnx(read_bytes(file)));
  return models;
}

// Every name is defined once, before it is used.
void check_order(const OnnxModel& model) {
  std::set<std::string> known, nodes;
  const auto give = [&](const std::string& name) {
    CHECK_MESSAGE(known.insert(name).second, name);
  };
  for (const OnnxInitializer& initializer : model.initializers) give(initializer.name);
  for (const OnnxInput& input : model.inputs) give(input.name);
  for (const OnnxNode& node : model.nodes) {
    CHECK_MESSAGE(nodes.insert(node.name).second, node.name);
    for (const std::string& input : node.inputs) CHECK_MESSAGE(known.contains(input), input);
    give(node.output);
  }
  for (const OnnxInput& output : model.outputs) CHECK(known.contains(output.name));
}

// The models have the bytes of each parameter, and no other.
void check_parameters(const std::vector<OnnxModel>& models, Module& model) {
  std::map<std::string, const OnnxInitializer*> found;
  for (const OnnxModel& part : models)
    for (const OnnxInitializer& initializer : part.initializers)
      found[initializer.name] = &initializer;
  const std::vector<Parameter*> parameters = model.parameters();
  CHECK(found.size() == parameters.size());
  for (const Parameter* parameter : parameters) {
    REQUIRE_MESSAGE(found.contains(parameter->name), parameter->name);
    const Array value = parameter->value();
    CHECK(found[parameter->name]->shape ==
          std::vector<std::int64_t>(value.shape().begin(), value.shape().end()));
    CHECK(found[parameter->name]->raw ==
          std::string(reinterpret_cast<const char*>(value.raw()), value.bytes()));
  }
}

void check_export(const TrainedModel& trained, std::int64_t longest) {
  const TemporaryFolder folder;
  const std::vector<OnnxModel> models = exported(trained, folder);
  for (const OnnxModel& model : models) {
    check_order(model);
    CHECK(model.opset == 17);
    CHECK(model.ir_version == 8);
    CHECK(model.producer == "tapestry");
    CHECK(model.metadata.at("config") == trained.config.toml());
  }
  check_parameters(models, trained.task->model());
  for (const auto& [output, difference] : onnx_differences(models, *trained.task, longest)) {
    CAPTURE(output);
    CHECK(difference < 1e-6);  // constants in the files are float32
  }
}

OnnxModel written(const onnx::Graph& graph) {
  std::string bytes;
  const auto append = [&](const auto& parts) {
    for (const std::string_view part : parts) bytes += part;
  };
  onnx::write_graph(append, graph, "1");
  return parse_onnx(bytes);
}

TEST_SUITE_BEGIN("exchange");

TEST_CASE("onnx: a graph names its nodes, and shares equal ones") {
  onnx::Graph graph("model", "Doubles.");
  Parameter weight(Array::of<float>({1, 2, 3}, {3}), Role::weight);
  weight.name = "layer.weight";
  const onnx::Value x = graph.input({.name = "x", .shape = {"batch", std::int64_t{3}}});
  const onnx::Value y = [&] {
    const onnx::Within module(x, "layer");
    return onnx::exp(x * graph.parameter(weight)) + onnx::exp(x * graph.parameter(weight)) * 2.0;
  }();
  graph.output({.name = "y", .shape = {"batch", std::int64_t{3}}}, y + 2.0);
  CHECK((y + 2.0).name == "y");  // bug: it was the name from before it was an output
  graph.note("config", "task");
  const OnnxModel model = written(graph);
  check_order(model);
  Strings names;
  for (const OnnxNode& node : model.nodes) names.push_back(node.name);
  CHECK(names == Words("layer/Mul layer/Exp constants/2 layer/Mul_1 layer/Add Add"));
  CHECK(model.initializers.size() == 1);
  CHECK(model.inputs.at(0).shape == Strings{"batch", "3"});
  CHECK(model.metadata == std::map<std::string, std::string>{{"config", "task"}});
  const OnnxTensor found =
      evaluate(model, {{"x", {.shape = {1, 3}, .values = {1, 0, -1}}}}).at("y");
  const std::vector<double> wanted = {3 * std::exp(1) + 2, 5, 3 * std::exp(-3) + 2};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK(found.values[i] == doctest::Approx(wanted[i]));
  CHECK_THROWS_AS(graph.output({.name = "y"}, y), std::invalid_argument);
}

TEST_CASE("onnx: indexing, stack and leaky_relu, which no shipped model has, are those ops") {
  const Array x = normal({3, 4}), s = normal({2, 4});
  const Array index = ints({2, 0, 0, 1, 2, 0, 1, 1}, {2, 4}), choice = ints({1, 0, 0}, {3, 1});
  onnx::Graph graph("model");
  const auto input = [&](const char* name, onnx::Type type) {
    return graph.input({.name = name, .type = type, .shape = {"rows", "columns"}});
  };
  const onnx::Value in = input("x", onnx::Type::float32), added = input("s", onnx::Type::float32),
                    places = input("index", onnx::Type::int64),
                    chooses = input("choice", onnx::Type::boolean);
  const std::vector<std::pair<onnx::Value, Tensor>> rows = {
      {onnx::gather_elements(in, 0, places), gather(x, 0, index)},
      {onnx::scatter_add(in, 0, places, added), scatter_add(x, 0, index, s)},
      {onnx::where(chooses, in, -in), where(choice, x, -Tensor(x))},
      {onnx::stack({in, in}, 1), stack({x, x}, 1)},
      {onnx::leaky_relu(in, 0.25), leaky_relu(x, 0.25)}};
  for (std::size_t i = 0; i < rows.size(); ++i)
    graph.output({.name = fmt::format("y{}", i)}, rows[i].first);
  const auto given = [](const Array& array) {
    return OnnxTensor{.shape = {array.shape().begin(), array.shape().end()},
                      .values = doubles(array)};
  };
  const OnnxTensors found = evaluate(
      written(graph),
      {{"x", given(x)}, {"s", given(s)}, {"index", given(index)}, {"choice", given(choice)}});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    const OnnxTensor expected = given(rows[i].second.value()), &y = found.at(fmt::format("y{}", i));
    CHECK(y.shape == expected.shape);
    CHECK(y.values == expected.values);
  }
}

TEST_CASE("onnx: the model of every shipped config is exported with the same outputs") {
  for (const auto& [name, text] : shipped_configs()) {
    CAPTURE(name);
    const Config config = parse_config(text, name, {});
    const auto value = [&](const std::string& key) { return text_setting(config, key); };
    if (value("task") == "word-vectors") continue;  // exported in word2vec's format
    const TemporaryFolder folder;
    const SmallData fixture = small_data_of(value("task"), value("data.kind"));
    for (const auto& [file, content] : fixture.files) folder.write(file, content);
    Words settings = small(value("task"), value("model.kind")) + small_preset(config) +
                     fixture.few + fixture.data;
    if (config.has("model.cycle") && config.value("model.cycle") != Value(std::int64_t{0}))
      settings.push_back(R"(data.columns=["load", "oil"])");
    for (std::string& setting : settings)
      if (setting.starts_with("data.path="))
        setting = "data.path=" + folder.path(setting.substr(std::string("data.path=").size()));
    const bool is_sum = value("task") == "toy-sequence" && value("data.kind") == "modular-addition";
    check_export(untrained(text, settings), is_sum ? 4 : value("task") == "language-model" ? 6 : 7);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "onnx: every kind of layer is exported with the same outputs") {
  const std::string language = "task = \"language-model\"\n[data]\npath = \"" +
                               write("story.txt", story(40)) +
                               "\"\n[model]\nlayers = 2\nwidth = 16\ncontext = 9\n";
  const std::string dates = "task = \"translation\"\n[model]\nlayers = 2\nwidth = 16\n";
  const std::string images = "[data]\ntraining_images = 12\ntest_images = 4\n[model]\n";
  const std::string toys = "task = \"toy-sequence\"\n[model]\nlayers = 2\nwidth = 16\n";
  const std::string vae = "task = \"vae\"\n" + images + "hidden = [7, 5]\nlatent = 3\n";
  const std::string vit =
      "task = \"image-classification\"\n" + images + "layers = 1\nwidth = 16\npatch = 14\n";
  const std::string cnn = "task = \"image-classification\"\n" + images +
                          "kind = \"convolutional\"\nchannels = [4, 8]\nhidden = [5]\n";
  const std::string reports =
      "task = \"text-classification\"\n[data]\nkind = \"reports\"\nexamples = 20\nheld_back = "
      "10\n[model]\n"
      "width = 16\ncontext = 9\n";
  const std::string waves =
      "task = \"forecast\"\n[model]\nlayers = 1\nwidth = 16\ncontext = 12\nhorizon = 5\npatch = 4\n"
      "stride = 4\n";
  const std::string targets = "data.targets=[\"oil\", \"load\"]";
  const std::string table =
      waves +
      "[data]\nkind = \"csv\"\nsplit = \"fractions\"\ncolumns = [\"load\", \"oil\"]\npath = \"" +
      write("hours.csv", csv(200)) + "\"\n";
  const std::string graphs = "task = \"graph\"\n[data]\nheld_back = 20\n[model]\nwidth = 8\n";
  std::string cells = "price,city,size,door,kind\n";
  for (int i = 0; i < 60; ++i)
    cells +=
        fmt::format("{},{},{},{},{}\n", i % 9 == 4 ? "" : std::to_string(0.3 + i * 37 % 61),
                    "abcdef"[i % 6], 0.01 * (i * i % 83), "yno"[i % 3], i % 4 ? "flat" : "house");
  const std::string rows =
      "task = \"table\"\n[model]\nlayers = 2\nwidth = 6\nmembers = 3\nbins = 4\nnumber_width = 3\n"
      "[data]\nkind = \"csv\"\npath = \"" +
      write("rows.csv", cells) + "\"\n";
  const std::vector<std::pair<std::string, Strings>> kinds = {
      {language, {"model.norm=post", "model.positions=sinusoidal", "model.activation=relu"}},
      {language, {"model.positions=none", "model.activation=gelu_tanh", "model.window=3"}},
      {language, {"model.positions=rotary", "model.key_value_heads=2", "model.gated=true"}},
      {language,
       {"model.positions=rotary", "model.rotary_pairs=halves", "model.rotary_scaling=llama3",
        "model.rotary_original_context=4", "model.norm_kind=rms", "model.bias=false",
        "model.query_key_norm=true", "model.head_width=6", "model.key_value_heads=1",
        "model.tied_embeddings=false", "model.activation=silu", "model.gated=true"}},
      {language, {"model.attention=random-features", "model.gate=true", "model.features=5"}},
      {language, {"model.attention=random-features", "model.features=5", "model.positions=rotary"}},
      {language,
       {"model.attention=random-features", "model.gate=true", "model.feature_map=positive"}},
      {language, {"model.kind=recurrent", "model.bias=false", "model.tied_embeddings=true"}},
      {language, {"model.kind=recurrent"}},
      {language, {"model.kind=lstm"}},
      {language, {"model.kind=lstm", "model.bias=false"}},
      {language, {"model.kind=gru"}},
      {language, {"model.kind=gru", "model.bias=false"}},
      {dates, {"model.window=2", "model.norm=post", "model.positions=learned"}},
      {dates, {"model.attention=random-features", "model.feature_map=positive"}},
      {dates, {"model.attention=random-features", "model.positions=rotary"}},
      {dates, {"model.tied_embeddings=false", "model.positions=rotary", "model.window=3"}},
      {toys, {"data.length=4", "model.kind=gru"}},
      {toys, {"data.kind=associative-recall", "data.length=10", "model.positions=rotary"}},
      {vae, {"model.channels=[2, 3]", "model.likelihood=gaussian", "model.activation=gelu"}},
      {vae, {"model.sigma=shared", "model.activation=silu"}},
      {vae, {"model.sigma=none"}},
      {vit, {"model.pooling=mean", "model.positions=rotary", "model.norm_kind=rms"}},
      {vit, {"model.norm=post", "model.positions=sinusoidal"}},
      {cnn, {"model.pool=average", "model.activation=relu", "model.kernel=4"}},
      {cnn, {"model.pool=none", "model.blocks=2", "model.norm_groups=2"}},
      {cnn, {"model.pool=none", "model.norm_groups=4"}},
      {reports, {"model.pooling=class", "model.norm=post", "model.positions=sinusoidal"}},
      {reports, {"model.kind=lstm"}},
      {reports, {"model.kind=gru", "model.layers=1"}},
      {reports, {"model.positions=rotary", "model.norm_kind=rms", "data.tokenizer="}},
      {reports, {"model.kind=embeddings"}},
      {reports, {"model.kind=decoder"}},
      {reports, {"model.kind=decoder", "model.positions=rotary", "model.key_value_heads=2"}},
      {waves, {"model.window_norm=last"}},
      {waves, {"model.kind=linear"}},
      {waves, {"model.kind=lstm"}},
      {waves, {"model.kind=gru", "model.window_norm=last"}},
      {waves, {"model.norm_kind=none", "model.feed_forward=-1"}},
      {waves, {"model.cycle=7"}},
      {table, {"model.kind=linear", "model.cycle=24", targets}},
      {table, {"model.window_norm=instance", targets}},
      {table, {"model.kind=linear", "model.window_norm=last", "data.targets=[\"oil\"]"}},
      {graphs, {"model.normalization=sum", "model.pooling=max"}},
      {graphs, {"model.normalization=mean", "model.pooling=mean"}},
      {graphs, {"model.layer=attention", "model.heads=2"}},
      {graphs, {"data.kind=karate", "model.layer=attention", "model.heads=2"}},
      {graphs, {"model.layer=gat", "model.heads=2"}},
      {graphs, {"data.kind=karate", "model.layer=gat", "model.heads=2", "model.output_heads=3"}},
      {graphs, {"model.layer=gcnii", "model.pooling=max"}},
      {graphs, {"data.kind=karate", "model.layer=gcnii", "model.layers=5", "model.alpha=0.3"}},
      {rows, {"data.label_field=kind"}},
      {rows, {"data.label_field=size", "model.numbers=scaled", "model.members=1"}},
      {rows, {"data.label_field=size", "data.columns=[\"city\", \"kind\"]"}}};
  for (const auto& [text, settings] : kinds) {
    CAPTURE(text);
    CAPTURE(settings.front());
    check_export(untrained(text, settings), 9);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "onnx: files have readable names and the run's metadata") {
  const std::vector<OnnxModel> models =
      exported(untrained("task = \"vae\"\n", small("vae")), *this);
  REQUIRE(models.size() == 2);
  CHECK(models[0].name == "encoder");
  CHECK(models[0].inputs.at(0).name == "images");
  CHECK(models[0].inputs[0].shape == Strings{"batch", "28", "28"});
  CHECK(models[0].outputs.at(0).name == "mean");
  CHECK(models[0].outputs.at(1).name == "log_variance");
  CHECK(models[1].inputs.at(0).name == "z");
  CHECK(models[1].inputs[0].shape == Strings{"batch", "2"});
  CHECK(has("exported/encoder.onnx"));
  CHECK(has("exported/decoder.onnx"));

  const OnnxModel sorts =
      exported(untrained("task = \"toy-sequence\"\n", small("toy-sequence")), *this).at(0);
  CHECK(sorts.inputs.at(0).name == "tokens");
  CHECK(sorts.inputs[0].shape == Strings{"batch", "time"});
  CHECK(sorts.outputs.at(0).shape.back() == "11");  // ten symbols and the end of a prompt
  CHECK(Json::parse(sorts.metadata.at("vocabulary")).size() == 11);
  const auto is_named = [&](const std::string& name) {
    return std::ranges::find(sorts.nodes, name, &OnnxNode::name) != sorts.nodes.end();
  };
  CHECK(is_named("blocks.0.attention/Softmax"));
  CHECK(is_named("blocks.0.feed_forward.contract/MatMul"));
}

TEST_CASE_FIXTURE(TemporaryFolder, "onnx: the command exports, and refuses wrong arguments") {
  const std::string run = path("run"), file = path("karate.onnx");
  must_run("train karate --out {} --quiet train.steps=2", run);
  const Finished done = tapestry_run("export {} --format onnx --out {}", run, file);
  CHECK(done.err == "");
  CHECK(done.out == file + ": a model, in ONNX of opset 17\n");
  const OnnxModel model = parse_onnx(read_bytes(file));
  CHECK(Json::parse(model.metadata.at("class_names")).size() == 2);
  CHECK(model.metadata.at("steps") == "2");

  const auto refusal = [&](const Words& more) {
    const Finished refused = tapestry_run(Words("export {} --format onnx", run) + more);
    CHECK(refused.status == 2);
    return refused.err;
  };
  CHECK(refusal({"--out", file}) ==
        "tapestry: " + file + ": already exists; give the name of a new file\n");
  CHECK(refusal({"--out", path("x"), "--dtype", "bfloat16"}) ==
        "tapestry: --dtype bfloat16: expected float32 with --format onnx\n");
  CHECK_FALSE(has("x"));

  const TrainedModel two = untrained("task = \"vae\"\n", small("vae"));
  CHECK(message_of([&] { export_onnx(two, path("vae.onnx")); }) ==
        "--out " + path("vae.onnx") +
            ": expected the name of a new folder, for encoder.onnx and decoder.onnx; leave out the "
            "ending");
  CHECK_FALSE(has("vae.onnx"));
  CHECK_ERROR(export_onnx(two, run), "already exists", "a new folder");
}

TEST_CASE_FIXTURE(TemporaryFolder, "onnx: a task without ONNX form is refused") {
  const TrainedModel karate = untrained("task = \"graph\"\n[data]\nkind = \"karate\"\n", {});
  Inspector<onnx::Models> exporter =
      std::exchange(task_registry().at("graph").onnx, TaskSpec{}.onnx);
  CHECK_ERROR(export_onnx(karate, path("karate.onnx")),
              "cannot be exported to ONNX; --format safetensors");
  task_registry().at("graph").onnx = std::move(exporter);
  CHECK_FALSE(has("karate.onnx"));
}

TEST_CASE("onnx: a model above the format's 2 GiB is refused") {
  onnx::expect_fits("decoder", onnx::most_bytes);
  CHECK(
      message_of([&] { onnx::expect_fits("decoder", onnx::most_bytes + 1); }) ==
      "--format onnx: the model decoder has 2.00 GiB; expected less than 2 GiB, the limit of ONNX "
      "files; --format safetensors has no limit");
}

// With TAPESTRY_RUN, TAPESTRY_INPUTS (a safetensors file of inputs by name, tokens and masks as
// int32) and TAPESTRY_OUTPUTS it writes the outputs, computed in float64, for a comparison
// elsewhere (tests/interop/).
TEST_CASE("interop: writes what a run's model computes" *
          doctest::skip(std::getenv("TAPESTRY_INPUTS") == nullptr)) {
  const char *run = std::getenv("TAPESTRY_RUN"), *given = std::getenv("TAPESTRY_INPUTS"),
             *out = std::getenv("TAPESTRY_OUTPUTS");
  REQUIRE((run && given && out));
  const TrainedModel trained = load_trained(run, {}, false);
  const Safetensors inputs = read_safetensors(given);
  Safetensors outputs;
  for (const auto& [name, array] :
       reference_outputs(*trained.task, {inputs.tensors.begin(), inputs.tensors.end()}))
    outputs.tensors.emplace_back(name, array.to(DType::float32));
  write_safetensors(out, outputs);
  CHECK(!outputs.tensors.empty());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
