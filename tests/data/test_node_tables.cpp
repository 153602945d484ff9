#include <doctest/doctest.h>

#include <cmath>
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
  CHECK(read.missing_cells == 2);
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
  CHECK(found.decimal == ',');
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
  CHECK(both.repeated_edges == 2);
  CHECK(both.self_loops == 1);
  CHECK(directed.graph.graph.list() == std::vector<Edge>{{1, 0}, {5, 0}, {0, 1}, {1, 2}, {3, 4}});
  CHECK(directed.repeated_edges == 1);
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
  CHECK(again.missing_cells == 1);
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
  check_says(
      message_of([&] {
        Tables other("id,age,label\n1,2,a\n2,3,a\n3,3,b\n4,4,b\n", "s,t\n1,2\n");
        load_node_tables(
            other.folder.path(),
            {.id_column = "id", .label_column = "label", .split_column = no_column, .decimal = '.'},
            read.columns);
      }),
      {"nodes.csv: line 1: no column is named smokes, which this model was trained on"});
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
  check_says(refusal("id,label\n"), {"nodes.csv: the table has no rows"});
  check_says(refusal("1,2,3\n2,3,4\n"), {"nodes.csv: line 1: ", "add a header line"});
  check_says(refusal("id,x,x,label\n1,2,2,a\n"), {"line 1: two columns are named x"});
  check_says(refusal("id,,label\n1,2,a\n"), {"line 1: column 2 has no name"});
  check_says(refusal("id,age\nann,3\n"), {"line 1: no column is named label, class or target"});
  check_says(refusal(good, knows, {.label_column = "job"}), {"line 1: no column is named job"});
  check_says(refusal(good + "gus,1,1\n"), {"line 8: expected 6 columns as in the header, found 3"});
  check_says(refusal(good + "\ngus,1,1,Rome,a,test\n"), {"line 8: the line is empty"});
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
             {"line 8: column age: expected a number, found a text; enter a number"});
  check_says(refusal("id,label\n1,\n2,\n"), {"nodes.csv: column label: no node has a label"});
  check_says(refusal("id,label\n1,a\n2,b\n", "s,t\n1,2\n"),
             {"2 nodes with labels of 2 classes, but 2 for training and 0 for validation"});
  check_says(refusal("id,label,split\n1,a,test\n2,b,val\n", "s,t\n1,2\n"),
             {"column split: no node with a label is for training"});
  check_says(refusal(good, ""), {"edges.csv: the file is empty"});
  check_says(refusal(good, "source,target\n"), {"edges.csv: no row joins two different nodes"});
  check_says(refusal(good, "ann,bob\nbob,cem\n"), {"edges.csv: line 1: ", "add a header"});
  check_says(refusal(good, "source\nann\n"), {"line 1: expected the columns source and target"});
  check_says(refusal(good, "source,target\nann,bob\nann,zoe\n"),
             {"edges.csv: line 3: node \"zoe\" is not among the 6 nodes of", "nodes.csv"});
  check_says(refusal(good, "source,target\nann\n"), {"edges.csv: line 2: expected 2 columns"});
  write("nodes.csv", good);
  CHECK_ERROR(load_node_tables(path(), detect_node_tables(path())),
              "expected a file edges.csv, found nodes.csv");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
