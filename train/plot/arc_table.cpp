#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/plot/canvas.hpp"

namespace tapestry {
namespace {

constexpr double row_height = 18, table_top = 58, column_gap = 18, table_margin = 12;
constexpr std::size_t most_characters_of_cell = 60;

// Returns how far to the left an arc reaches.
double reach_of(const ArcTable::Arc& arc) {
  return 12 * std::sqrt(static_cast<double>(arc.to - arc.from));
}

// Returns the left edge of the cells, to the right of all arcs.
double left_of_cells(const ArcTable& table) {
  double widest = 0;
  for (const ArcTable::Arc& arc : table.arcs) widest = std::max(widest, reach_of(arc));
  return table_margin + widest + 14;
}

// Returns the right edges of the columns.
std::vector<double> edges_of(const ArcTable& table) {
  std::vector<double> edges;
  double edge = left_of_cells(table);
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    double width = width_of(table.columns[column]);
    for (const auto& row : table.rows)
      width = std::max(width, width_of(label_text(row[column], most_characters_of_cell)));
    edges.push_back(edge += width + (column > 0 ? column_gap : 0));
  }
  return edges;
}

double height_of_row(std::size_t row) { return table_top + row_height * static_cast<double>(row); }

void draw_arc(const ArcTable::Arc& arc, double right, Canvas& canvas) {
  constexpr int pieces = 24;
  const double from = height_of_row(arc.from), to = height_of_row(arc.to);
  std::vector<Position> points;
  for (int i = 0; i <= pieces; ++i) {
    const double angle = std::numbers::pi * i / pieces;
    points.push_back({right - reach_of(arc) * std::sin(angle),
                      (from + to) / 2 - (to - from) / 2 * std::cos(angle)});
  }
  canvas.line(points, {.color = arc.to - arc.from == 1 ? 0x9aa5b1u : 0x4a90c8u, .width = 1.2});
}

// Draws a row of cells, the first column flush left and the others flush right.
void draw_cells(const std::vector<std::string>& cells, double left,
                const std::vector<double>& edges, double baseline, Canvas& canvas) {
  for (std::size_t column = 0; column < cells.size(); ++column)
    canvas.text({column == 0 ? left : edges[column], baseline},
                label_text(cells[column], most_characters_of_cell),
                {.anchor = column == 0 ? TextStyle::Anchor::begin : TextStyle::Anchor::end});
}

}  // namespace

Extent extent_of(const ArcTable& table) {
  const std::vector<double> edges = edges_of(table);
  const double right = std::max(edges.empty() ? 0 : edges.back(), width_of(table.title));
  return {right + 2 * table_margin, height_of_row(table.rows.size()) + table_margin};
}

void draw(const ArcTable& table, Canvas& canvas) {
  constexpr double to_middle = 4.5;  // from the baseline
  canvas.text({table_margin, 20}, label_text(table.title, 200), {});
  const double left = left_of_cells(table), right = left - 8;
  const std::vector<double> edges = edges_of(table);
  draw_cells(table.columns, left, edges, 42, canvas);
  std::vector<Position> places;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    draw_cells(table.rows[row], left, edges, height_of_row(row) + to_middle, canvas);
    places.push_back({right, height_of_row(row)});
  }
  for (const ArcTable::Arc& arc : table.arcs) draw_arc(arc, right, canvas);
  canvas.markers(places, {.color = 0x0b2545, .size = 5});
}

}  // namespace tapestry
