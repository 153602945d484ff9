'use strict';

// Shows the curves of the runs' metrics: one chart per metric, which zoom and pan together along
// the steps.
{
  const splitColor = new Map([['val', 0], ['train', 1], ['test', 2]]);

  const unique = (texts) => [...new Set(texts)];
  const linesOf = (charts) => charts.flatMap((chart) => chart.lines);

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

  function caption(runs) {
    const what = runs.length > 1
      ? 'Each color is a run: a thick line is its validation, a thin one its training, a dot ' +
        'its test.'
      : 'A thin line is training, a thick one validation, a dot the test.';
    return element('p', {class: 'faint'},
      `${what} Drag over a chart (or pinch it) to zoom, double-click to see the whole again; all ` +
      'charts follow. Smoothing draws the training curves as a running mean of what came before, with ' +
      'the values faintly behind (but not where there are several seeds), and leaves validation ' +
      'and test as they are.');
  }

  function smoothingSlider(smooth) {
    const shown = element('output', {class: 'smoothing'}, '0');
    const control = slider('Smoothing', {min: 0, max: 0.99, step: 0.01, value: 0}, (value) => {
      shown.textContent = figure(value);
      smooth(value);
    });
    control.append(shown);
    return control;
  }

  function logButton(text, possible, toggled) {
    const button = toggleButton(text, toggled);
    button.disabled = !possible;
    if (!possible) button.title = 'No value is above 0';
    return button;
  }

  parts.curves = (host, data) => {
    const {charts} = data, lines = linesOf(charts);
    host.dataset.charts = charts.length;
    if (charts.length === 0) return host.append(element('p', {}, 'No curves were recorded.'));
    const runs = unique(lines.map(({run}) => run)), splits = unique(lines.map(({split}) => split));
    const made = [];
    const updateAll = (options) => made.forEach((chart) => chart.update(options));
    const some = (test) => lines.some(({points}) => points.some(test));
    const controls = element('div', {class: 'controls'},
      logButton('Log steps', some(([x]) => x > 0), (logX) => updateAll({logX})),
      logButton('Log values', some((point) => point[point.length === 4 ? 2 : 1] > 0),
                (logY) => updateAll({logY})));
    if (splits.includes('train')) {
      controls.prepend(smoothingSlider((smoothing) => updateAll({smoothing})));
    }
    const grid = element('div', {class: 'chart-grid'});
    host.append(caption(runs), controls, grid);
    charts.forEach((chart, i) => {
      const across = charts.length === 1 || (i === 0 && chart.metric === 'loss');
      const cell = element('div', {class: across ? 'panel across' : 'panel'});
      grid.append(cell);
      const shown = lineChart(cell, {
        title: chart.metric, xLabel: 'step', height: across ? 320 : 230,
        lines: chart.lines.map((line) => lineOf(runs, splits, line)),
        windowChanged: (window) =>
          made.forEach((other) => other === shown || other.show(window)),
      });
      made.push(shown);
    });
  };
}
