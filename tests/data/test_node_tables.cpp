#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>

#include "data/graphs/node_tables.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/graphs.hpp"
#include "tests/support/gzip.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("node tables");

constexpr const char* people =
    "id,age,smokes,town,label,split\n"
    "ann,20,1,Rome,a,train\n"
    "bob,40,0,,b,train\n"
    "cem,,1,Oslo,a,val\n"
    "dea,60,0,Rome,b,test\n"
    "eva,40,0,Oslo,,train\n"
    "fay,40,0,Oslo,a,\n";
constexpr const char* knows = "source,target\nann,bob\nbob,cem\ndea,eva\nfay,ann\n";

// Writes two tables into a folder.
struct Tables {
  TemporaryFolder folder;
  Tables(const std::string& nodes, const std::string& edges) {
    folder.write("nodes.csv", nodes);
    folder.write("edges.csv", edges);
  }
  NodeTables load(const NodeTableOptions& options = {}) const {
    return load_node_tables(folder.path(), detect_node_tables(folder.path(), options));
  }
};

std::string refusal(const std::string& nodes, const std::string& edges = knows,
                    const NodeTableOptions& options = {}) {
  return message_of([&] { Tables(nodes, edges).load(options); });
}

using Nodes = std::vector<std::int64_t>;

TEST_CASE("node tables: numbers are standardized, texts become categories, and 0 and 1 are kept") {
  const NodeTables read = Tables(people, knows).load();
  const NodeGraph& graph = read.graph;
  const double age = 1 / std::sqrt(160.0);  // of 20, 40, 60, 40 and 40 years
  check_close(graph.features.to(f64),
              Array::of(std::vector<double>{-20 * age, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0,
                                            20 * age,  0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0},
                        {6, 4}),
              1e-6);
  CHECK(read.missing_cells.count == 2);
  CHECK(read.missing_cells.first_line == 3);
  CHECK(graph.inputs() == 4);
  CHECK(graph.names == Strings{"ann", "bob", "cem", "dea", "eva", "fay"});
  CHECK(graph.classes == Strings{"a", "b"});
  CHECK(graph.labels == Ints{0, 1, 0, 1, ignored_target, 0});
  CHECK(graph.training == Nodes{0, 1});
  CHECK(graph.validation == Nodes{2});
  CHECK(graph.test == Nodes{3});
  CHECK(graph.graph.edges() == 8);
}

TEST_CASE("node tables: detect roles of columns, which options replace") {
  const std::string other =
      "\xEF\xBB\xBF\"Name\";Klasse;\"gr\xC3\xB6\xC3\x9F"
      "e\";Region\r\n"
      "\"M\xC3\xBCller; A\";x;1,5;1\r\n\"B\";y;2,5;2\r\nC;x;3,5;2\r\nD;y;0;1\r\n";
  const Tables tables(other, "from\tto\tweight\r\nB\t\"M\xC3\xBCller; A\"\t0.5\r\nC\tD\t1\r\n");
  const NodeTableOptions found =
      detect_node_tables(tables.folder.path(), {.label_column = "Klasse"});
  CHECK(found.id_column == "Name");
  CHECK(found.split_column == no_column);
  CHECK(found.table.decimal == ',');
  CHECK(found.class_names == Strings{"x", "y"});
  CHECK(found.categorical.empty());
  const NodeTables read = tables.load({.label_column = "Klasse"});
  CHECK(read.graph.names[0] == "M\xC3\xBCller; A");
  CHECK(read.columns.size() == 2);
  CHECK(read.unused_edge_columns == Strings{"weight"});
  const NodeTables codes = tables.load({.label_column = "Klasse", .categorical = {"Region"}});
  CHECK(codes.columns[1].categories == Strings{"1", "2"});
  CHECK(codes.graph.inputs() == 3);
  CHECK(tables.load({.label_column = "Klasse", .ignored = {"Region"}}).graph.inputs() == 1);
  CHECK(Tables("id,label\n1,10\n2,9\n3,10\n4,9\n", "a,b\n1,2\n3,4\n").load().graph.classes ==
        Strings{"9", "10"});
}

TEST_CASE("node tables: edges are directed or not, and are read once") {
  const Tables tables(people, std::string(knows) + "bob,ann\nann,bob\ncem,cem\n");
  const NodeTables both = tables.load(), directed = tables.load({.directed = true});
  CHECK(both.graph.graph.edges() == 8);
  CHECK(both.repeated_edges.count == 2);
  CHECK(both.repeated_edges.first_line == 6);
  CHECK(both.self_loops.count == 1);
  CHECK(both.self_loops.first_line == 8);
  CHECK(directed.graph.graph.list() == std::vector<Edge>{{1, 0}, {5, 0}, {0, 1}, {1, 2}, {3, 4}});
  CHECK(directed.repeated_edges.count == 1);
  CHECK(!both.says_directed);
  CHECK(Tables(people, "source,target,type\nbob,ann,Directed\nann,cem,Directed\n")
            .load()
            .says_directed);
}

TEST_CASE("node tables: without features each id is a category that a trained model knows") {
  std::string nodes = "id,label\n", edges = "source,target\n";
  for (int i = 0; i < 20; ++i) {
    nodes += fmt::format("n{},{}\n", i, i % 2);
    edges += fmt::format("n{},n{}\n", i, (i + 2) % 20);
  }
  const NodeTables read = Tables(nodes, edges).load({.rules = 1});
  CHECK(!read.has_features);
  CHECK(read.graph.inputs() == 20);
  CHECK(read.graph.entries->list()[3] == Edge{3, 3});
  CHECK(read.graph.training.size() == 12);  // 6 of the 10 nodes of each class
  CHECK(read.graph.validation.size() == 4);
  CHECK(read.graph.test.size() == 4);
  const NodeDataset data(std::make_shared<const NodeGraph>(read.graph), read.graph.training);
  CHECK(data.batch({}).inputs.shape() == Shape{20, 1});

  const Tables moved("id,label\nn7,0\nnew,\nn3,1\nn5,0\nn4,1\nn9,0\n", "source,target\nn7,n3\n");
  const NodeTables again =
      load_node_tables(moved.folder.path(), detect_node_tables(moved.folder.path()), read.columns);
  CHECK(again.graph.entries->list() == std::vector<Edge>{{7, 0}, {3, 2}, {5, 3}, {4, 4}, {9, 5}});
  CHECK(again.missing_cells.count == 1);
}

TEST_CASE("node tables: a trained model's means and categories encode other nodes") {
  const NodeTables read = Tables(people, knows).load();
  std::string others = people;
  others += "gus,60,1,Bonn,b,\n";
  const Tables tables(others, knows);
  const NodeTables again = load_node_tables(tables.folder.path(),
                                            detect_node_tables(tables.folder.path()), read.columns);
  CHECK(again.graph.inputs() == 4);
  check_close(Array(again.graph.features.part(0, 24)), read.graph.features.part(0, 24));
  check_close(Array(again.graph.features.part(24, 28).to(f64)),
              Array::of(std::vector<double>{20 / std::sqrt(160.0), 1, 0, 0}, {4}), 1e-6);
  check_says(message_of([&] {
               Tables other("id,age,label\n1,2,a\n2,3,a\n3,3,b\n4,4,b\n", "s,t\n1,2\n");
               load_node_tables(
                   other.folder.path(),
                   {.id_column = "id", .label_column = "label", .split_column = no_column},
                   read.columns);
             }),
             {"nodes.csv: no column is named smokes, which this model was trained on"});
}

TEST_CASE("node tables: read gzip, and name columns that cannot be features") {
  std::string nodes = "id,note,empty,label\n", edges = "source,target\n";
  for (int i = 0; i < 66; ++i) {
    nodes += fmt::format("{0},text {0},,{1}\n", i, i % 3);
    edges += fmt::format("{},{}\n", i, (i + 1) % 66);
  }
  const Tables tables(nodes, edges);
  CHECK(unusable_columns(tables.folder.path(), {}) == Strings{"note", "empty"});
  check_says(refusal(nodes, edges),
             {"nodes.csv: line 66: column note: expected numbers or at most 64 categories"});
  check_says(refusal(nodes, edges, {.ignored = {"note"}}),
             {"nodes.csv: column empty: expected values, found only empty cells"});
  const TemporaryFolder zipped;
  CHECK(!is_node_table_folder(zipped.path()));
  zipped.write("nodes.csv.gz", gzip(nodes));
  zipped.write("edges.csv.gz", gzip(edges));
  CHECK(is_node_table_folder(zipped.path()));
  CHECK(detect_node_tables(zipped.path()).class_names.size() == 3);
}

TEST_CASE_FIXTURE(TemporaryFolder, "node tables: errors name file and line") {
  const std::string good = people;
  CHECK(refusal(good).empty());
  check_says(refusal(""), {"nodes.csv: the file is empty"});
  check_says(refusal("id,label\n"), {"nodes.csv: has a header alone; expected rows below it"});
  check_says(refusal("id,x,x,label\n1,2,2,a\n"), {"two columns are named x"});
  check_says(
      refusal("id,age\nann,3\n"),
      {"no column is named label, class, target, category, sentiment, and none has classes"});
  check_says(refusal(good, knows, {.label_column = "job"}), {"line 1: no column is named job"});
  check_says(refusal(good + "gus,1,1\n"),
             {"line 8: expected 6 columns as in the first row, found 3"});
  CHECK(refusal(good + "\ngus,1,1,Rome,a,test\n").empty());
  check_says(refusal(good + "ann,1,1,Rome,a,test\n"),
             {"line 8: column id: node ann is also in line 2"});
  check_says(refusal(good + ",1,1,Rome,a,test\n"), {"line 8: column id: the cell is empty"});
  check_says(refusal(good + "gus,1,1,Rome,a,later\n"),
             {"line 8: column split: expected train, validation, test or nothing, found later"});
  check_says(refusal(good + "gus,1,1,Rome,c,test\n"),
             {"line 8: no node of the training split has class c; move one to that split"});
  check_says(refusal(good + "gus,1,1,Rome,c,test\n", knows, {.class_names = {"a", "b"}}),
             {"line 8: class c is not one of a, b"});
  check_says(refusal(good + "gus,old,1,Rome,a,test\n", knows, {.categorical = {"town"}}),
             {"line 8: column age: \"old\" is not a number"});
  check_says(refusal("id,label\n1,\n2,\n"), {"nodes.csv: column label: no node has a label"});
  check_says(refusal("id,label\n1,a\n2,b\n", "s,t\n1,2\n"),
             {"2 nodes with labels of 2 classes, but 2 for training and 0 for validation"});
  check_says(refusal("id,label,split\n1,a,test\n2,b,val\n", "s,t\n1,2\n"),
             {"column split: no node with a label is for training"});
  check_says(refusal(good, ""), {"edges.csv: the file is empty"});
  check_says(refusal(good, "source,target\n"), {"edges.csv: has a header alone"});
  check_says(refusal(good, "source,target\nann,ann\n"), {"edges.csv: no row joins two different"});
  check_says(refusal(good, "source\nann\n"),
             {"expected the columns source and target, found source"});
  check_says(
      refusal(good, "source,target\nann,bob\nann,zoe\n"),
      {"edges.csv: line 3: node \"zoe\" is not among the 6 nodes of", "nodes.csv, column id"});
  check_says(refusal(good, "source,target\nann\n"), {"edges.csv: line 2: expected 2 columns"});
  write("nodes.csv", good);
  CHECK_ERROR(load_node_tables(path(), detect_node_tables(path())),
              "expected a file edges.csv, found nodes.csv");
}

// --- which column is what ---

// Returns nodes.csv of `count` nodes with these columns after the id, of which row(i) has the
// cells.
std::string nodes_of(const std::string& names, int count, const auto& row) {
  std::string text = "node_id," + names + "\n";
  for (int i = 0; i < count; ++i) text += fmt::format("n{},{}\n", i * 7 % count, row(i));
  return text;
}

std::string ring(int count, const std::string& header, const auto& row) {
  std::string text = header;
  for (int i = 0; i < count; ++i)
    text += row(i, fmt::format("n{}", i), fmt::format("n{}", (i + 1) % count)) + "\n";
  return text;
}

std::string ring(int count) {
  return ring(count, "source,target\n",
              [](int, const std::string& a, const std::string& b) { return a + "," + b; });
}

Strings names_of(const std::vector<NodeColumn>& columns) {
  Strings names;
  for (const NodeColumn& column : columns) names.push_back(column.name);
  return names;
}

TEST_CASE("bug: node tables: row numbers were features and leaked the class") {
  const std::string nodes = nodes_of("row,rising,other,x,label", 40, [](int i) {
    return fmt::format("{},{},{},{},{}", i + 1, i * i + 3, i * 11 % 40, i % 5, i < 20 ? "a" : "b");
  });
  const Tables tables(nodes, ring(40));
  const NodeTableOptions found = detect_node_tables(tables.folder.path());
  CHECK(found.ignored == Strings{"row", "rising"});
  CHECK(names_of(tables.load().columns) == Strings{"other", "x"});
  CHECK(names_of(tables.load({.columns = {"row", "x"}}).columns) == Strings{"row", "x"});
  CHECK(names_of(tables.load({.ignored = {"x"}}).columns) == Strings{"other"});
  CHECK(names_of(tables.load({.rules = 1}).columns) == Strings{"row", "rising", "other", "x"});
  std::map<std::string, std::string> uses;
  for (const ColumnUse& one : node_column_uses(tables.folder.path(), {})) uses[one.name] = one.use;
  CHECK(uses["row"] == "row numbers, left out: numbers, 1 to 40");
  CHECK(uses["rising"].starts_with("row numbers, left out: "));
  CHECK(uses["other"] == "feature, all different: an id?: numbers, 0 to 39");
  CHECK(uses["node_id"].starts_with("id: "));
  // pandas writes its index without a name, or as "Unnamed: 0".
  for (const std::string name : {"", "Unnamed: 0", "index"}) {
    std::string indexed = name + ",paper,x,label\n";
    for (int i = 0; i < 12; ++i)
      indexed += fmt::format("{},n{},{},{}\n", 3 * i, i * 5 % 12, i % 4, i % 2);
    const NodeTables read = Tables(indexed, ring(12)).load();
    CHECK(names_of(read.columns) == Strings{"x"});
    CHECK(read.graph.names[1] == "n5");
  }
}

TEST_CASE("bug: node tables: a row number became an end of each edge") {
  const std::string nodes =
      nodes_of("x,label", 30, [](int i) { return fmt::format("{},{}", i % 4, i % 2); });
  const std::vector<Edge> expected = Tables(nodes, ring(30)).load().graph.graph.list();
  const std::pair<std::string, std::string> kinds[] = {
      {"Unnamed: 0,u,v\n", "{0},{1},{2}"},     {",0,1\n", "{0},{1},{2}"},
      {"row,first,second\n", "{0},{1},{2}"},   {"w,Dst_ID,Src_ID\n", "5,{2},{1}"},
      {"node2,node1,weight\n", "{2},{1},0.5"}, {"FromNodeId\tToNodeId\n", "{1}\t{2}"},
      {"head,type,tail\n", "{1},likes,{2}"},   {"", "{1},{2}"},
      {"# nodes: 30\n", "{1} ; {2}"},          {"a|b\r\n", "{1}|{2}\r"}};
  for (const auto& [header, row] : kinds) {
    CAPTURE(header);
    const std::string edges =
        ring(30, header, [&, form = row](int i, const auto& a, const auto& b) {
          return fmt::format(fmt::runtime(form), i, a, b);
        });
    CHECK(Tables(nodes, edges).load().graph.graph.list() == expected);
  }
  const std::string three = ring(30, "a,b,c\n", [](int i, const auto& a, const auto& b) {
    return fmt::format("{},{},n{}", a, b, i / 2);
  });
  check_says(refusal(nodes, three),
             {"edges.csv: expected the columns source and target, found a, b, c"});
  CHECK(Tables(nodes, three).load({.edge_columns = {"a", "b"}}).graph.graph.list() == expected);
  check_says(refusal(nodes, three, {.edge_columns = {"a", "d"}}), {"no column is named d"});
  CHECK(Tables(nodes, three).load({.rules = 1}).graph.graph.list() == expected);
}

TEST_CASE("bug: node tables: masks were features, and the split was another") {
  const auto masks = [](const char* yes, const char* no, const std::string& names) {
    return nodes_of("label,x," + names, 40, [&](int i) {
      return fmt::format("{},{},{},{},{}", i % 2, i % 7, i % 10 < 5 ? yes : no,
                         i % 10 == 5 || i % 10 == 6 ? yes : no, i % 10 > 7 ? yes : no);
    });
  };
  const std::pair<const char*, const char*> words[] = {
      {"True", "False"}, {"1", "0"}, {"TRUE", ""}, {"1.0", "0.0"}};
  for (const auto& [yes, no] : words) {
    const NodeTables read =
        Tables(masks(yes, no, "train_mask,val_mask,test_mask"), ring(40)).load();
    CHECK(names_of(read.columns) == Strings{"x"});
    CHECK(read.graph.training.size() == 20);
    CHECK(read.graph.validation.size() == 8);
    CHECK(read.graph.test.size() == 8);
    CHECK(read.without_split.count == 4);
    CHECK(read.without_split.first_line == 9);
  }
  const Tables other(masks("True", "False", "Train_Mask,validation_mask,test_mask"), ring(40));
  CHECK(detect_node_tables(other.folder.path()).split_column ==
        "Train_Mask + validation_mask + test_mask");
  const NodeTables divided = other.load({.split_column = no_column});
  CHECK(names_of(divided.columns) == Strings{"x"});
  CHECK(divided.without_split.count == 0);
  CHECK(Tables(masks("1", "0", "is_train,is_val,is_test"), ring(40)).load().graph.test ==
        Tables(masks("1", "0", "train_mask,val_mask,test_mask"), ring(40)).load().graph.test);
  CHECK(names_of(Tables(masks("1", "0", "is_a,is_valid,is_dev"), ring(40)).load().columns) ==
        Strings{"x", "is_a", "is_valid", "is_dev"});
  const NodeTables bare = Tables(masks("1", "0", "train,val,test"), ring(40)).load();
  CHECK(names_of(bare.columns) == Strings{"x"});
  CHECK(bare.graph.training.size() == 20);
  CHECK(bare.graph.test.size() == 8);
  CHECK(detect_node_tables(Tables(masks("1", "0", "train,val,test"), ring(40)).folder.path())
            .split_column == "train + val + test");
  const Tables used(masks("1", "0", "train,val,test"), ring(40));
  CHECK(detect_node_tables(used.folder.path(), {.label_column = "train"}).split_column ==
        no_column);
  CHECK(names_of(used.load({.ignored = {"train", "test"}}).columns) == Strings{"x", "val"});
  CHECK(names_of(used.load({.columns = {"x", "test"}}).columns) == Strings{"x", "test"});
  CHECK(Tables(masks("1", "0", "is_training,in_validation,in_test"), ring(40)).load().graph.test ==
        bare.graph.test);
  const auto flags = [&](const std::string& names, int train, int test) {
    return Tables(nodes_of("label,x," + names, 40,
                           [&](int i) {
                             return fmt::format("{},{},{:d},{:d}", i % 2, i % 7, i % 10 < train,
                                                i % 10 >= test);
                           }),
                  ring(40))
        .load();
  };
  CHECK(flags("train,test", 7, 7).graph.test.size() == 12);
  CHECK(names_of(flags("train,test", 3, 7).columns) == Strings{"x", "train", "test"});  // vehicles
  CHECK(names_of(flags("train,test", 0, 7).columns) == Strings{"x", "train", "test"});
  for (const char* none : {"2", "a", "1"})  // amounts, texts, and nodes in several splits
    CHECK(names_of(Tables(masks("1", none, "train,val,test"), ring(40)).load().columns).size() ==
          4);
  std::string twice = masks("1", "0", "train_mask,val_mask,test_mask");
  twice.replace(twice.find(",1,0,0"), 6, ",1,0,1");
  check_says(refusal(twice, ring(40)),
             {"nodes.csv: line 2: column test_mask: the node is in two splits"});
  twice.replace(twice.find(",1,0,1"), 6, ",1,0,x");
  check_says(refusal(twice, ring(40)),
             {"line 2: column test_mask: expected true or false, found x"});
}

TEST_CASE("bug: node tables: -1 was a class") {
  const auto load = [](const auto& label, const NodeTableOptions& options = {}) {
    return Tables(nodes_of("x,label", 60,
                           [&](int i) { return fmt::format("{},{}", i % 4, label(i)); }),
                  ring(60))
        .load(options);
  };
  const auto with_negative = [](int i) { return i % 3 - 1; };
  const NodeTables read = load(with_negative);
  CHECK(read.graph.classes == Strings{"0", "1"});
  CHECK(read.negative_labels == 20);
  CHECK(load(with_negative, {.rules = 1}).graph.classes == Strings{"-1", "0", "1"});
  CHECK(load(with_negative, {.class_names = {"-1", "0", "1"}}).negative_labels == 0);
  CHECK(load([](int i) { return i % 2 * 2 - 1; }).graph.classes == Strings{"-1", "1"});
  CHECK(load([](int i) { return i % 4 - 2; }).graph.classes == Strings{"-2", "-1", "0", "1"});
}

TEST_CASE("node tables: the label is the only column with classes, or is asked for") {
  const std::string one = nodes_of("x,team", 60, [](int i) {
    return fmt::format("{}.{},{}", i, i * 37 % 91, i % 3 == 0 ? "" : i % 2 == 0 ? "a" : "b");
  });
  const Tables tables(one, ring(60));
  CHECK(detect_node_tables(tables.folder.path()).label_column == "team");
  const std::string two = nodes_of(
      "size,team", 60, [](int i) { return fmt::format("{},{}", i % 5, i % 2 == 0 ? "a" : "b"); });
  check_says(refusal(two, ring(60)),
             {"several columns may have the classes: size (5 values), team (2 values)"});
  CHECK(Tables(two, ring(60)).load({.label_column = "team"}).graph.classes == Strings{"a", "b"});
  const std::string both =
      nodes_of("class,label", 60, [](int i) { return fmt::format("{},{}", i % 5, i % 2); });
  check_says(refusal(both, ring(60)),
             {"several columns may have the classes: class (5 values), label (2 values)"});
  CHECK(Tables(both, ring(60)).load({.rules = 1}).graph.classes == Strings{"0", "1"});
  const std::string named =
      nodes_of("Sentiment,x", 60, [](int i) { return fmt::format("{},{}", i % 2, i % 5); });
  CHECK(Tables(named, ring(60)).load().graph.classes == Strings{"0", "1"});
}

TEST_CASE("node tables: the id is the column with the ends of the edges") {
  std::string nodes = "nr,paper,year,label\n";
  for (int i = 0; i < 30; ++i) nodes += fmt::format("{},n{},{},{}\n", i, i * 7 % 30, i % 3, i % 2);
  const Tables tables(nodes, ring(30));
  CHECK(detect_node_tables(tables.folder.path()).id_column == "paper");
  CHECK(detect_node_tables(tables.folder.path(), {.rules = 1}).id_column == "nr");
  // Numbers of two columns may be the ids.
  std::string ranks = "key,rank,label\n", edges = "source,target\n";
  for (int i = 0; i < 30; ++i) {
    ranks += fmt::format("{},{},{}\n", i * 7 % 30, i * 11 % 30, i % 2);
    edges += fmt::format("{},{}\n", i, (i + 1) % 30);
  }
  check_says(refusal(ranks, edges), {"the columns key + rank each have the ends of all edges"});
  CHECK(Tables(ranks, edges).load({.id_column = "rank"}).graph.names[1] == "11");
}

TEST_CASE("bug: node tables: edges with spaces between their ends were refused") {
  const std::string nodes =
      nodes_of("x,label", 40, [](int i) { return fmt::format("{},{}", i % 7, i % 2); });
  const auto expected = Tables(nodes, ring(40)).load().graph.graph.list();
  for (const char* header : {"", "source target\n", "# FromNodeId ToNodeId\n", "% sym unweighted\n",
                             "% sym unweighted\n% 40 40 40\n"}) {
    CAPTURE(header);
    const std::string edges = ring(
        40, header, [](int, const std::string& a, const std::string& b) { return a + " " + b; });
    CHECK(Tables(nodes, edges).load().graph.graph.list() == expected);
  }
  check_says(refusal(nodes, "%%MatrixMarket matrix\n3 3 2\nn0 n1\nn1 n2\n"),
             {"edges.csv: line 3: expected 3 columns as in the first row, found 2"});
}

TEST_CASE("bug: node tables: init made a category of each text that no other node has") {
  const Tables tables(nodes_of("vector,town,label", 40,
                               [](int i) {
                                 return fmt::format("\"[0.{}, 1]\",{},{}", i,
                                                    i % 3 == 0 ? "Rome" : "Oslo", i % 2);
                               }),
                      ring(40));
  const NodeTableOptions options = detect_node_tables(tables.folder.path());
  CHECK(unusable_columns(tables.folder.path(), options) == Strings{"vector"});
}

TEST_CASE("node tables: without header, in UTF-16, with other line ends, comments and sums") {
  std::string plain, edges;
  for (int i = 0; i < 30; ++i) {
    plain += fmt::format("n{},{},{}\n", i * 7 % 30, (i * 31 + 5) / 10.0, i % 2 == 0 ? "a" : "b");
    edges += fmt::format("n{},n{}\n", i, (i + 1) % 30);
  }
  const NodeTables bare = Tables(plain, edges).load();
  CHECK(names_of(bare.columns) == Strings{"column 2"});
  CHECK(bare.graph.classes == Strings{"a", "b"});
  CHECK(bare.remarks == Strings{"there is no header: columns are numbered"});
  const std::string named = "# people\nid,x,label\n" + plain;
  const std::vector<float> expected(bare.graph.features.values<float>().begin(),
                                    bare.graph.features.values<float>().end());
  std::string returns = named, wide = "\xFF\xFE";
  std::ranges::replace(returns, '\n', '\r');
  for (const char c : named) wide += {c, '\0'};
  for (const std::string& text : {named, returns, wide}) {
    const auto read = Tables(text, edges).load();
    CHECK(std::ranges::equal(read.graph.features.values<float>(), expected));
    CHECK(read.graph.names == bare.graph.names);
  }
  check_says(refusal("id,x,label\n" + plain + "Total,500,\n", edges),
             {"nodes.csv: line 32: \"Total\" is a row about the others; remove it"});
}

TEST_CASE("node tables: a text in a column of numbers is refused, or a missing word") {
  const std::string nodes = nodes_of("x,label", 60, [](int i) {
    return fmt::format("{},{}", i == 30 ? "unknown" : std::to_string(i % 7), i % 2);
  });
  check_says(refusal(nodes, ring(60)),
             {"nodes.csv: line 32: column x: \"unknown\" is not a number; 59 of the 60 cells are"});
  NodeTableOptions options;
  options.table.missing_words = {"unknown"};
  CHECK(Tables(nodes, ring(60)).load(options).missing_cells.count == 1);
}

TEST_CASE("bug: node tables: without a mark of thousands, a comma was no decimal mark") {
  const std::string nodes = nodes_of(
      "x,label", 60, [](int i) { return fmt::format("\"{},{}\",{}", 1 + i % 9, 100 + i, i % 2); });
  check_says(refusal(nodes, ring(60)), {"column x: \"1,100\" in line 2 may be"});
  NodeTableOptions options;
  options.table.thousands = no_mark;
  CHECK(detect_node_tables(Tables(nodes, ring(60)).folder.path(), options).table.decimal == ',');
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
