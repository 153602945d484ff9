'use strict';

// Shows forecasts over the test split: a slider moves the window whose forecast is compared with
// the target.
{
  // Returns one series: its values, its forecasts, and those of the baselines, by window and step.
  function seriesOf(data, index) {
    const {values, origins: {values: origins}, forecasts, horizon, season, context} = data;
    const [rows, count] = values.shape;
    const value = (row) => row < 0 || row >= rows ? NaN : values.values[row * count + index];
    // Returns the last measured value in a row, or in one `stride` rows before it.
    const measured = (row, stride, least) => {
      while (row >= least && Number.isNaN(value(row))) row -= stride;
      return row < least ? NaN : value(row);
    };
    const inSeason = (origin, row) => {
      const found = measured(row, season, origin - context);
      return Number.isNaN(found) ? measured(row, 1, 0) : found;
    };
    return {
      rows, origins, horizon, value,
      guesses: [(window, step) => forecasts.values[(window * horizon + step) * count + index],
                (window) => measured(origins[window] - 1, 1, 0),
                ...(season ? [(window, step) => inSeason(origins[window],
                                                         origins[window] - season + step % season)]
                           : [])],
    };
  }

  // Returns the range of all values and forecasts, so that the axis is the same for each window.
  function rangeOf({rows, origins, horizon, value, guesses: [forecast]}) {
    let least = Infinity, most = -Infinity;
    const take = (one) => {
      if (!Number.isFinite(one)) return;
      least = Math.min(least, one);
      most = Math.max(most, one);
    };
    for (let row = 0; row < rows; ++row) take(value(row));
    origins.forEach((_, window) => {
      for (let step = 0; step < horizon; ++step) take(forecast(window, step));
    });
    return least < most ? [least, most] : null;
  }

  // Returns the mean absolute and squared error of guess(window, step) over windows [first, last).
  function errorsOf({origins, horizon, value}, guess, first, last) {
    let absolute = 0, squared = 0, count = 0;
    for (let window = first; window < last; ++window) {
      for (let step = 0; step < horizon; ++step) {
        const error = guess(window, step) - value(origins[window] + step);
        if (!Number.isFinite(error)) continue;
        absolute += Math.abs(error);
        squared += error * error;
        ++count;
      }
    }
    return [absolute / count, squared / count];
  }

  // Returns the table of the errors in this window and in all windows.
  function errorTable(series, season, window) {
    const windows = series.origins.length;
    const row = (name, i) => element('tr', {}, element('th', {scope: 'row'}, name),
      ...[[window, window + 1], [0, windows]].flatMap(([first, last]) =>
        errorsOf(series, series.guesses[i], first, last)
          .map((value) => element('td', {class: 'number'}, figure(value)))));
    const head = (text) => element('th', {class: 'number'}, text);
    return element('table', {class: 'forecast-errors'},
      element('thead', {}, element('tr', {}, element('th', {}, 'Mean error'),
        head('absolute, this window'), head('squared'), head(`absolute, all ${windows} windows`),
        head('squared'))),
      element('tbody', {}, row('Forecast', 0), row('Last value (naive)', 1),
              ...(season ? [row(`Last ${season} steps (seasonal naive)`, 2)] : [])));
  }

  // Returns the lines of a window: as many steps of the context as `history`, and the horizon.
  function linesOf({rows, origins, horizon, value, guesses: [forecast]}, window, history) {
    const origin = origins[window];
    const points = (from, until, valueAt) =>
      Array.from({length: Math.max(until - from, 0)}, (_, i) => [from + i, valueAt(from + i)]);
    const known = (step) => value(origin + step);
    return [
      {name: 'context', color: 7, points: points(-Math.min(history, origin), 0, known)},
      {name: 'target', color: 0, points: points(0, Math.min(horizon, rows - origin), known)},
      {name: 'forecast', color: 1, points: points(0, horizon, (step) => forecast(window, step))},
    ];
  }

  parts.forecast = (host, packed) => {
    const data = {...packed, values: arrayOf(packed.values), forecasts: arrayOf(packed.forecasts),
                  origins: arrayOf(packed.origins)};
    const {names, horizon, context, season, times} = data;
    const last = data.origins.values.length - 1;
    let series = seriesOf(data, 0), window = 0, history = 2 * horizon, chart;
    const when = element('p', {class: 'forecast-when', 'aria-live': 'polite'});
    const panel = element('div', {class: 'panel'}), errors = element('div', {class: 'wide'});
    const shown = () => ({lines: linesOf(series, window, Math.min(history, context)),
                          valueRange: rangeOf(series)});
    const show = () => {
      const origin = series.origins[window];
      when.textContent = `Window ${window + 1} of ${last + 1}, from ${times[window]}`;
      mover.slider.value = window;
      [previous.disabled, next.disabled] = [window === 0, window === last];
      host.dataset.origin = origin;
      errors.replaceChildren(errorTable(series, season, window));
      chart?.update(shown());
    };
    const go = (to) => {
      window = Math.min(Math.max(to, 0), last);
      show();
    };
    const button = (text, by) =>
      element('button', {type: 'button', onclick: () => go(window + by)}, text);
    const mover = slider('Window', {min: 0, max: last, step: 1, value: 0}, go);
    const previous = button('Previous', -1), next = button('Next', 1);
    const choose = chooser('Series', names.map((name) => name.trim() || '(no name)'), (index) => {
      series = seriesOf(data, index);
      chart.graph.resetZoom();
      show();
    });
    host.classList.add('forecast');
    host.append(
      element('p', {class: 'faint'},
        `The forecast begins at the dashed line: the model reads the ${context} steps before it ` +
        `and forecasts the next ${horizon}. Move the window to see other times of the test split.`),
      element('div', {class: 'controls'}, choose, mover, previous, next,
              toggleButton('Whole context', (on) => {
                history = on ? context : 2 * horizon;
                show();
              })),
      when, panel, errors);
    show();
    chart = new LineChart(panel, {
      title: 'Forecast and target', height: 320, vertical: 0, yLabel: 'value',
      xLabel: 'steps from the first one forecast', ...shown()});
  };
}
