'use strict';

// Shows forecasts over the test split: a slider moves the window whose forecast is compared with
// the target.
{
  function timeText(seconds, stepSeconds) {
    const date = new Date(seconds * 1000);
    if (typeof seconds !== 'number' || Number.isNaN(date.getTime()) || stepSeconds === 0) return '';
    return date.toISOString().slice(0, stepSeconds % 60 ? 19 : 16).replace('T', ' ');
  }

  // One series: its values, and its forecasts by window and step.
  class Series {
    constructor({values, origins, forecasts, horizon, season}, index) {
      const [rows, count] = values.shape;
      this.rows = rows;
      this.horizon = horizon;
      this.origins = origins.values;
      this.value = (row) => row < 0 || row >= rows ? NaN : values.values[row * count + index];
      this.forecast = (window, step) =>
        forecasts.values[(window * horizon + step) * count + index];
      this.repeated = (window) => this.value(this.origins[window] - 1);
      this.seasonal = season > 0
        && ((window, step) => this.value(this.origins[window] - season + step % season));
    }

    // Returns the range of all values and forecasts, so that the axis is the same for each window.
    range() {
      let least = Infinity, most = -Infinity;
      const take = (value) => {
        if (!Number.isFinite(value)) return;
        least = Math.min(least, value);
        most = Math.max(most, value);
      };
      for (let row = 0; row < this.rows; ++row) take(this.value(row));
      for (let window = 0; window < this.origins.length; ++window) {
        for (let step = 0; step < this.horizon; ++step) take(this.forecast(window, step));
      }
      if (least > most) return [0, 1];
      const room = (most - least) * 0.04 || Math.abs(least) * 0.1 || 1;
      return [least - room, most + room];
    }

    // Returns the mean absolute and squared error of guess(window, step) over windows [first,
    // last).
    errors(guess, first, last) {
      let absolute = 0, squared = 0, count = 0;
      for (let window = first; window < last; ++window) {
        for (let step = 0; step < this.horizon; ++step) {
          const error = guess(window, step) - this.value(this.origins[window] + step);
          if (!Number.isFinite(error)) continue;
          absolute += Math.abs(error);
          squared += error * error;
          ++count;
        }
      }
      return [absolute / count, squared / count];
    }

    // Returns the errors of the model and of the baselines.
    allErrors(first, last) {
      return [this.forecast, this.repeated, this.seasonal].filter(Boolean)
        .map((guess) => this.errors(guess, first, last));
    }
  }

  const errorText = (value) => Number.isFinite(value) ? figure(value) : '–';

  function errorTable({length: windows}, season, here, overall) {
    const number = (value) => element('td', {class: 'number'}, errorText(value));
    const row = (name, i) => element('tr', {}, element('th', {scope: 'row'}, name),
                                     ...here[i].map(number), ...overall[i].map(number));
    const heads = ['absolute', 'squared', 'absolute', 'squared'];
    return element('table', {class: 'forecast-errors'},
      element('thead', {},
        element('tr', {}, element('th', {}, 'Mean error'),
                element('th', {colspan: 2, class: 'number'}, 'this window'),
                element('th', {colspan: 2, class: 'number'}, `all ${windows} windows`)),
        element('tr', {}, element('td'),
                ...heads.map((head) => element('th', {class: 'number'}, head)))),
      element('tbody', {}, row('Forecast', 0), row('Last value (naive)', 1),
              ...(season ? [row(`Last ${season} steps (seasonal naive)`, 2)] : [])));
  }

  class Forecasts {
    constructor(host, data) {
      this.host = host;
      this.data = {...data, values: arrayOf(data.values), forecasts: arrayOf(data.forecasts),
                   origins: arrayOf(data.origins)};
      this.windows = this.data.origins.values.length;
      this.window = 0;
      this.history = 2 * data.horizon;
      host.classList.add('forecast');
      if (this.windows === 0) host.append(element('p', {}, 'No forecasts were recorded.'));
      else this.build();
    }

    build() {
      const {names, horizon, context} = this.data;
      const button = (text, by) =>
        element('button', {type: 'button', onclick: () => this.go(this.window + by)}, text);
      this.mover = slider('Window', {min: 0, max: this.windows - 1, step: 1, value: 0},
                          (window) => this.go(window));
      this.previous = button('Previous', -1);
      this.next = button('Next', 1);
      const texts = names.map((name) => name.trim() || '(no name)');
      const series = chooser('Series', texts, (index) => this.take(index));
      const wholeContext = toggleButton('Whole context', (on) => {
        this.history = on ? context : 2 * horizon;
        this.refresh();
      });
      wholeContext.disabled = context <= 2 * horizon;
      this.when = element('p', {class: 'forecast-when', 'aria-live': 'polite'});
      this.errors = element('div', {class: 'wide'});
      const panel = element('div', {class: 'panel'});
      this.host.append(
        element('p', {class: 'faint'},
          `The forecast begins at the dashed line: the model reads the ${context} steps before it ` +
          `and forecasts the next ${horizon}. Move the window to see other times of the test split.`),
        element('div', {class: 'controls'}, ...(names.length > 1 ? [series] : []), this.mover,
                this.previous, this.next, wholeContext),
        this.when, panel, this.errors);
      this.open(0);
      this.chart = lineChart(panel, {title: 'Forecast and target', height: 320, verticals: [0],
                                     xLabel: 'steps from the first one forecast', yLabel: 'value',
                                     lines: this.lines(), yRange: this.range});
      this.describe();
    }

    open(index) {
      this.series = new Series(this.data, index);
      this.range = this.series.range();
      this.overall = this.series.allErrors(0, this.windows);
    }

    take(index) {
      this.open(index);
      this.chart.show(null);
      this.refresh();
    }

    go(window) {
      this.window = Math.min(Math.max(window, 0), this.windows - 1);
      this.refresh();
    }

    refresh() {
      this.chart.update({lines: this.lines(), yRange: this.range});
      this.describe();
    }

    lines() {
      const {series, window} = this;
      const origin = series.origins[window];
      const points = (from, until, value) =>
        Array.from({length: Math.max(until - from, 0)}, (_, i) => [from + i, value(from + i)]);
      const value = (step) => series.value(origin + step);
      const history = Math.min(this.history, this.data.context, origin);
      const future = Math.min(series.horizon, series.rows - origin);
      return [
        {name: 'context', color: 7, points: points(-history, 0, value)},
        {name: 'target', color: 0, points: points(0, future, value)},
        {name: 'forecast', color: 1,
         points: points(0, series.horizon, (step) => series.forecast(window, step))},
      ];
    }

    describe() {
      const {start_s: start, step_s: step} = this.data;
      const {series, window} = this;
      const origin = series.origins[window];
      const time = timeText(start + origin * step, step);
      this.when.textContent = `Window ${window + 1} of ${this.windows}, ` +
          (time ? `from ${time} UTC` : `from row ${start + origin + 1}`);
      this.mover.slider.value = window;
      this.mover.slider.setAttribute('aria-valuetext', this.when.textContent);
      this.previous.disabled = window === 0;
      this.next.disabled = window === this.windows - 1;
      this.host.dataset.origin = origin;
      this.errors.replaceChildren(
        errorTable(series.origins, this.data.season, series.allErrors(window, window + 1),
                   this.overall));
    }
  }

  parts.forecast = (host, data) => {
    new Forecasts(host, data);
  };
}
