'use strict';

// Shows the curves of the runs' metrics: one chart per metric, which zoom together along the steps.
{
  const splitColor = new Map([['val', 0], ['train', 1], ['test', 2]]);

  const unique = (texts) => [...new Set(texts)];

  // Returns the options of a line. Its color distinguishes runs, or the splits of a single run.
  function lineOf(runs, splits, {run, split, band, seeds, points}) {
    const several = runs.length > 1;
    const seedsText = band ? `, mean of ${seeds} seeds, band from lowest to highest` : '';
    return {
      name: several ? run : split,
      detail: (several ? ` · ${split}` : '') + seedsText,
      color: several ? runs.indexOf(run) : splitColor.get(split) ?? 3 + splits.indexOf(split),
      points, thin: split === 'train', smooth: split === 'train', marks: split === 'test',
    };
  }

  const CAPTION = 'A thin line is training, a thick one validation, a dot the test. Drag over a '
    + 'chart (or pinch it) to zoom, with Shift to move it, double-click to see the whole again; all '
    + 'charts follow. Smoothing draws the training curves as a running mean.';

  parts.curves = (host, {charts}) => {
    const lines = charts.flatMap((chart) => chart.lines);
    host.dataset.charts = charts.length;
    const runs = unique(lines.map(({run}) => run)), splits = unique(lines.map(({split}) => split));
    const made = [];
    const updateAll = (options) => made.forEach((chart) => chart.update(options));
    const controls = element('div', {class: 'controls'},
      ...(splits.includes('train') ? [slider('Smoothing', {min: 0, max: 0.99, step: 0.01, value: 0},
                                             (smoothing) => updateAll({smoothing}))] : []),
      toggleButton('Log steps', (logX) => updateAll({logX})),
      toggleButton('Log values', (logY) => updateAll({logY})),
      element('button', {type: 'button', onclick: () => made.forEach(({graph}) => graph.resetZoom())},
              'Whole'));
    const grid = element('div', {class: 'chart-grid'});
    host.append(element('p', {class: 'faint'}, CAPTION), controls, grid);
    charts.forEach((chart, i) => {
      const across = charts.length === 1 || (i === 0 && chart.metric === 'loss');
      const cell = element('div', {class: across ? 'panel across' : 'panel'});
      grid.append(cell);
      const shown = new LineChart(cell, {
        title: chart.metric, xLabel: 'step', height: across ? 320 : 230,
        lines: chart.lines.map((line) => lineOf(runs, splits, line)),
        zoomed: (window) => made.forEach((other) => other === shown
          || other.graph.updateOptions({dateWindow: window})),
      });
      made.push(shown);
    });
  };
}
