'use strict';

// Line charts, drawn by dygraphs. dygraphs parses titles and labels as HTML, so it gets none: its
// series are called s0, s1, …, and the title, the units and the legend are elements of this page.

// Returns a button that stays pressed; toggled(on) is called when its state changes.
function toggleButton(text, toggled, on = false) {
  const button = element('button', {type: 'button', 'aria-pressed': String(on), onclick: () => {
    const pressed = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(pressed));
    toggled(pressed);
  }}, text);
  return button;
}

// lineChart(host, {title, xLabel, yLabel, lines, height, logX, logY, smoothing, dateWindow, yRange,
//                  verticals, windowChanged}) appends a chart to the host.
// lines: [{name, detail, color, points, dashed, marks, thin, smooth}, …] where
//   points   [[x, y], …] or, to draw a band, [[x, low, middle, high], …]; a y may be null or NaN
//   detail   follows the name in the legend and is never shortened
//   color    index for seriesColor(), or null for a faint line
//   smooth   whether this line is smoothed
// yRange: [low, high], by default that of the shown values; verticals: x of dashed vertical lines;
// windowChanged([low, high], or null for all): called when the user zooms or pans.
// Returns {update(some of these options), show(window), destroy()}.
const lineChart = (() => {
  // A scale maps a value to its place (to) and back (from), and knows which values it can show
  // (fits).
  const linear = {to: (value) => value, from: (place) => place, fits: () => true};
  const log = {to: Math.log10, from: (place) => 10 ** place, fits: (value) => value > 0};

  const middle = (point) => point[point.length === 4 ? 2 : 1];

  // Returns the index of the first point whose x is at least `x`; the number of points if none is.
  function firstAt(points, x) {
    let low = 0, high = points.length;
    while (low < high) {
      const half = (low + high) >> 1;
      if (points[half][0] < x) low = half + 1;
      else high = half;
    }
    return low;
  }

  // Returns the value at x on the line from point i - 1 to point i; NaN if one of them is missing.
  function between(points, i, x) {
    if (i === 0 || i === points.length) return NaN;
    const [left, right] = [points[i - 1], points[i]];
    const share = (x - left[0]) / (right[0] - left[0]);
    return middle(left) + share * (middle(right) - middle(left));
  }

  function nearest(points, x) {
    const i = firstAt(points, x);
    const after = points[i], before = points[i - 1];
    if (!after || !before) return after || before;
    return after[0] - x < x - before[0] ? after : before;
  }

  const ascending = (points) =>
    points.filter(([x]) => Number.isFinite(x)).sort((a, b) => a[0] - b[0]);

  // Returns the exponential moving average over the points, with bias correction.
  function smoothed(points, keep) {
    const sums = [0, 0, 0];
    let weight = 0;
    return points.map((point) => {
      const values = point.slice(1);
      if (!values.every(Number.isFinite)) return point;
      weight = keep * weight + 1 - keep;
      values.forEach((value, i) => sums[i] = keep * sums[i] + (1 - keep) * value);
      return [point[0], ...values.map((value, i) => sums[i] / weight)];
    });
  }

  // Returns the range from least to most with a margin on both sides.
  function withRoom(least, most, scale, share) {
    if (least > most) return [scale.from(0), scale.from(1)];
    const low = scale.to(least), high = scale.to(most);
    const room = (high - low) * share || Math.abs(low) * 0.1 || 1;
    return [scale.from(low - room), scale.from(high + room)];
  }

  // Returns the least and the greatest value of the series in a window, including the values at its
  // borders.
  function extent(shown, [low, high], scale) {
    let least = Infinity, most = -Infinity;
    const take = (value) => {
      if (value === null || !Number.isFinite(value) || !scale.fits(value)) return;
      least = Math.min(least, value);
      most = Math.max(most, value);
    };
    for (const {points} of shown) {
      let i = firstAt(points, low);
      take(between(points, i, low));
      for (; i < points.length && points[i][0] <= high; ++i) points[i].slice(1).forEach(take);
      take(between(points, i, high));
    }
    return [least, most];
  }

  // Returns the data for dygraphs: a row for each x with a cell for each series. null: the series
  // has no point at this x, and its line continues; NaN: the line breaks.
  function rowsOf(shown, bands) {
    const rows = new Map();  // keyed by x
    const blank = shown.map(() => null);
    shown.forEach(({points}, column) => {
      for (const point of points) {
        if (!rows.has(point[0])) rows.set(point[0], [point[0], ...blank]);
        rows.get(point[0])[column + 1] = bands ? bandOf(point) : numberOf(middle(point));
      }
    });
    return [...rows.values()].sort((a, b) => a[0] - b[0]);
  }

  const numberOf = (value) => value === null || !Number.isFinite(value) ? NaN : value;
  const bandOf = (point) => [point[1], middle(point), point[point.length - 1]].map(numberOf);

  // Returns the point of a band with a positive lower edge, which a log axis needs: an edge at or
  // below 0 continues below the chart.
  const aboveZero = (point) =>
    point.length === 4 && point[1] <= 0 ? [point[0], 1e-300, ...point.slice(2)] : point;

  function tickText(value) {
    const rounded = Number(value.toPrecision(12)), size = Math.abs(rounded);
    const long = size >= 1e7 || (size < 1e-4 && size > 0);
    return long ? rounded.toExponential().replace('e+', 'e') : String(rounded);
  }

  // Returns a long text without its middle, because names of runs often differ at the end.
  function shortened(text, most) {
    const letters = Array.from(text);
    if (letters.length <= most) return text;
    const half = Math.floor(most / 2);
    return `${letters.slice(0, half).join('')}…${letters.slice(-half).join('')}`;
  }

  const named = (text, most) => shortened(text.trim(), most) || '(no name)';

  function faded(hex, opacity) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${red},${green},${blue},${opacity})`;
  }

  const colorOf = ({color: index}) => index === null ? color('--faint') : seriesColor(index);
  const cssColorOf = ({color: index}) =>
    index === null ? 'var(--faint)' : `var(--series-${index % 10})`;

  class LineChart {
    constructor(host, options) {
      this.options = {title: '', xLabel: '', yLabel: '', height: 260, smoothing: 0, verticals: [],
                      ...options};
      this.lines = this.prepared(options.lines);
      this.view = {x: options.dateWindow || null, y: null};  // null: all values
      this.hidden = new Set();                               // names of hidden lines
      this.near = true;                                      // whether it is almost on the screen
      this.build(host);
      this.relabel();
      this.near = this.root.getBoundingClientRect().top < 1.2 * innerHeight;
      drawn(this.root, () => this.draw());
      this.watch();
    }

    prepared(lines) {
      return lines.map((line) => ({detail: '', ...line, points: ascending(line.points)}));
    }

    build(host) {
      const {title, xLabel, yLabel, height} = this.options;
      const button = (text, act) =>
        element('button', {type: 'button', onclick: act, 'aria-label': `${text}: ${title}`}, text);
      this.plot = element('div', {
        class: 'chart-plot', tabindex: 0, role: 'application', onkeydown: (e) => this.keyed(e),
        'aria-label': `${title}, a line chart. Left and right move it when it is zoomed, + and - ` +
            'zoom, 0 shows the whole, Shift with left and right reads the values.',
        style: `height: ${height}px`,
      });
      this.note = element('div', {class: 'chart-note'});
      this.at = element('div', {class: 'chart-at'});
      this.legend = element('div', {class: 'chart-legend'});
      this.root = element('div', {class: 'chart'},
        element('div', {class: 'chart-head'},
          element('div', {class: 'chart-title', title}, named(title, 90)),
          element('div', {class: 'chart-zoom'},
            button('Zoom in', () => this.zoom(0.5)), button('Zoom out', () => this.zoom(2)),
            button('Whole', () => this.whole()))),
        element('div', {class: 'chart-unit', title: yLabel}, shortened(yLabel, 90)),
        this.plot,
        element('div', {class: 'chart-unit chart-x', title: xLabel}, shortened(xLabel, 90)),
        this.note, this.at, this.legend);
      host.append(this.root);
    }

    // Draws only charts that are about to be visible, because a page may have many.
    watch() {
      this.observer = new IntersectionObserver(([{isIntersecting}]) => {
        this.near = isIntersecting;
        if (this.near && this.stale) this.draw();
      }, {rootMargin: '20% 0px'});
      this.observer.observe(this.root);
      this.print = () => {
        this.near = true;
        if (this.stale) this.draw();
      };
      addEventListener('beforeprint', this.print);
    }

    update(options) {
      Object.assign(this.options, options);
      if (options.lines) {
        this.lines = this.prepared(options.lines);
        this.relabel();
      }
      this.later();
    }

    // Shows the x in window = [low, high]; null: all.
    show(window) {
      this.view = {x: window, y: window && this.view.y};
      this.later();
    }

    destroy() {
      cancelAnimationFrame(this.due);
      this.observer.disconnect();
      removeEventListener('beforeprint', this.print);
      if (this.graph) this.graph.destroy();
      this.graph = null;
      this.destroyed = true;
      this.root.remove();
    }

    later() {
      cancelAnimationFrame(this.due);
      this.due = requestAnimationFrame(() => this.draw());
    }

    // Updates the legend, which has a button for each line that hides and shows the line.
    relabel() {
      const look = JSON.stringify(this.lines.map(({points, ...others}) => others));
      if (look === this.look) return;
      this.look = look;
      this.values = this.lines.map(() => element('span', {class: 'chart-value'}));
      this.legend.replaceChildren(...this.lines.map((line, i) => this.legendEntry(line, i)));
    }

    legendEntry(line, i) {
      const kind = line.marks ? 'marks' : line.dashed ? 'dashed' : line.thin ? 'thin' : 'solid';
      const swatch = element('span', {class: `chart-swatch ${kind}`,
                                      style: `color: ${cssColorOf(line)}`});
      const key = line.name + line.detail;
      const entry = toggleButton('', (on) => {
        if (on) this.hidden.delete(key);
        else this.hidden.add(key);
        this.draw();
      }, !this.hidden.has(key));
      entry.title = key;
      entry.append(swatch,
                   element('span', {class: 'chart-name'}, named(line.name, 48) + line.detail),
                   this.values[i]);
      return entry;
    }

    // Returns the lines to draw: below a smoothed line, the unchanged values as a faint line.
    series() {
      const {smoothing} = this.options;
      return this.lines.flatMap((line, index) => {
        if (this.hidden.has(line.name + line.detail)) return [];
        const points = this.fitting(line.points);
        const plain = {line, index, points, raw: false};
        if (!smoothing || !line.smooth) return [plain];
        const average = {...plain, points: this.fitting(smoothed(line.points, smoothing))};
        const band = points.length > 0 && points[0].length === 4;
        return band ? [average] : [{...plain, raw: true}, average];
      });
    }

    fitting(points) {
      const {x, y} = this.scales;
      if (x === linear && y === linear) return points;
      const fits = (value) => !Number.isFinite(value) || y.fits(value);
      const left = points.filter((point) => x.fits(point[0]) && fits(middle(point)));
      return y === log ? left.map(aboveZero) : left;
    }

    // Chooses a log axis, where one is wanted, only if the axis can show at least one point.
    chooseScales() {
      const {logX, logY} = this.options;
      const some = (test) => this.lines.some(({points}) => points.some(test));
      const x = logX && some((point) => point[0] > 0) ? log : linear;
      const y = logY && some((point) => x.fits(point[0]) && middle(point) > 0) ? log : linear;
      this.scales = {x, y};
    }

    // Explains which points are not shown.
    explain() {
      const {x, y} = this.scales;
      const left = (point) =>
        !x.fits(point[0]) || (Number.isFinite(middle(point)) && !y.fits(middle(point)));
      const out = this.lines.reduce((sum, line) => sum + line.points.filter(left).length, 0);
      const {logX, logY} = this.options;
      const refused = (logX && x === linear) || (logY && y === linear);
      const empty = this.lines.every(({points}) => points.length === 0);
      this.note.textContent =
        empty ? 'There are no values here.' :
        refused ? 'No value is above 0, so this axis is not logarithmic.' :
        out ? `${out} ${out === 1 ? 'point is' : 'points are'} at or below 0, which a log axis ` +
              'cannot show.' : '';
    }

    // Returns the first and last x of all lines, hidden or not, with a margin.
    wholeWindow() {
      const {x} = this.scales;
      const fitting = this.lines.flatMap(({points}) => {
        const first = points.find((point) => x.fits(point[0]));
        return first ? [first[0], points[points.length - 1][0]] : [];
      });
      return withRoom(Math.min(...fitting), Math.max(...fitting), x, 0.02);
    }

    chooseWindow() {
      this.all = this.wholeWindow();
      const {x: view} = this.view;
      const {x: scale} = this.scales;
      if (!view || !scale.fits(view[1])) this.window = this.all;
      else this.window = [scale.fits(view[0]) ? view[0] : this.all[0], view[1]];
      if (this.window[0] >= this.window[1]) this.window = this.all;
    }

    draw() {
      if (this.destroyed) return;
      this.stale = !this.near || this.plot.clientWidth === 0;
      if (this.stale) return;
      this.chooseScales();
      const shown = this.series();
      this.chooseWindow();
      const bands = shown.some(({points}) => points.length > 0 && points[0].length === 4);
      this.rows = rowsOf(shown, bands);
      this.range = this.view.y || this.options.yRange ||
          withRoom(...extent(shown, this.window, this.scales.y), this.scales.y, 0.06);
      this.points = [];  // points of each line, for the legend
      for (const {index, points} of shown) this.points[index] = points;
      this.give(shown, bands);
      this.explain();
      this.read(null);
    }

    // Passes the data to dygraphs, which needs at least one row and one series.
    give(shown, bands) {
      const rows = this.rows.length > 0 ? this.rows : [[this.window[0], ...shown.map(() => null)]];
      if (shown.length === 0) rows[0].push(null);
      const labels = ['x', ...(shown.length > 0 ? shown : [null]).map((_, i) => `s${i}`)];
      const options = {...this.appearance(shown), labels, customBars: bands,
                       dateWindow: this.window};
      if (this.graph) {
        this.graph.resize();
        this.graph.updateOptions({...options, file: rows});
      } else {
        this.graph = new Dygraph(this.plot, rows, {...options, ...this.behaviour()});
      }
    }

    appearance(shown) {
      const {x, y} = this.scales;
      const line = color('--line');
      // At most 16 labels, which do not touch.
      const digits = Math.max(4, ...this.window.map((end) => tickText(Math.round(end)).length));
      const series = {};
      shown.forEach((one, i) => series[`s${i}`] = this.strokeOf(one));
      return {
        series, gridLineColor: line, axisLineColor: line,
        axes: {
          x: {logscale: x === log, axisLabelFormatter: tickText, axisLabelWidth: 56,
              pixelsPerLabel: Math.max(20 + 7 * digits, this.plot.clientWidth / 16)},
          y: {logscale: y === log, axisLabelFormatter: tickText, axisLabelWidth: 54,
              valueRange: this.range, drawGrid: y !== log || this.range[1] < 1e12 * this.range[0]},
        },
      };
    }

    strokeOf({line, raw}) {
      const ink = colorOf(line);
      const light = raw ? 0.3 : line.thin && !this.options.smoothing ? 0.7 : 1;
      return {
        color: faded(ink, light),
        strokeWidth: raw || line.thin ? 1.2 : 2,
        strokePattern: line.dashed ? [7, 4] : null,
        drawPoints: Boolean(line.marks),
        pointSize: line.marks ? 4.5 : 2.5,
        highlightCircleSize: raw ? 0 : 4,
      };
    }

    behaviour() {
      return {
        legend: 'never', connectSeparatedPoints: true, axisLabelFontSize: 12, gridLineWidth: 1,
        axisLineWidth: 1, rightGap: 16, fillAlpha: 0.18, animatedZooms: false,
        highlightCallback: (event, x) => this.read(x),
        unhighlightCallback: () => this.read(null),
        zoomCallback: (low, high, ranges) => this.dragged(low, high, ranges[0]),
        plugins: [{activate: () => ({didDrawChart: (event) => this.drawVerticals(event)})}],
        interactionModel: {
          mousedown: Dygraph.defaultInteractionModel.mousedown,
          willDestroyContextMyself: true,
          dblclick: () => this.whole(),
          touchstart: (event) => this.touched(event),
          touchmove: (event) => this.touchMoved(event),
        },
      };
    }

    // Draws the vertical lines above the grid, which may have a line at the same place.
    drawVerticals({dygraph: graph, drawingContext: context}) {
      const area = graph.getArea();
      context.save();
      context.strokeStyle = color('--ink');
      context.lineWidth = 1.5;
      context.setLineDash([5, 4]);
      for (const x of this.options.verticals) {
        const at = graph.toDomXCoord(x);
        context.beginPath();
        context.moveTo(at, area.y);
        context.lineTo(at, area.y + area.h);
        context.stroke();
      }
      context.restore();
    }

    // Writes the values at x into the legend; null: the last value of each line.
    read(x) {
      const {xLabel} = this.options;
      this.at.textContent = x === null ? 'Last values' : `${shortened(xLabel, 60)}: ${figure(x)}`;
      this.values.forEach((value, i) => value.textContent = this.valueText(this.points[i], x));
    }

    valueText(points, x) {
      if (!points || points.length === 0) return '';
      const point = x === null ? points[points.length - 1] : nearest(points, x);
      const value = middle(point);
      const text = value === null || !Number.isFinite(value) ? 'missing' : figure(value);
      return x === null || point[0] === x ? text : `${text} at ${figure(point[0])}`;
    }

    // Handles a drag along x or along y, for which dygraphs reports the other range unchanged.
    dragged(low, high, range) {
      if (low === this.window[0] && high === this.window[1]) this.view.y = range;
      else this.moveTo([low, high]);
      this.draw();
    }

    moveTo(window) {
      this.view.x = window;
      if (this.options.windowChanged) this.options.windowChanged(window);
      this.later();
    }

    whole() {
      this.view.y = null;
      this.moveTo(null);
    }

    zoom(factor) {
      if (!this.graph) return;
      const {x} = this.scales;
      const [low, high] = this.window.map(x.to);
      const center = (low + high) / 2, half = (high - low) / 2 * factor;
      if (factor > 1) this.view.y = null;
      this.place(center - half, center + half);
    }

    pan(share) {
      if (!this.graph) return;
      const [low, high] = this.window.map(this.scales.x.to);
      const by = share * (high - low);
      this.place(low + by, high + by);
    }

    // Shows the range from low to high on the scale, moved into the range of all values.
    place(low, high) {
      const {x} = this.scales;
      const [least, most] = this.all.map(x.to);
      const width = high - low;
      if (width >= most - least) return this.moveTo(null);
      if (width < 1e-9 * (most - least)) return;
      const from = Math.min(Math.max(low, least), most - width);
      this.moveTo([x.from(from), x.from(from + width)]);
    }

    keyed(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const turn = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      const scale = {'+': 0.5, '=': 0.5, '-': 2}[event.key];
      if (turn && event.shiftKey) this.step(turn);
      else if (turn) this.pan(0.15 * turn);
      else if (scale) this.zoom(scale);
      else if (event.key === '0' || event.key === 'Home') this.whole();
      else return;
      event.preventDefault();
    }

    // Reads the values at the next x (turn = 1), or at the previous one (turn = -1).
    step(turn) {
      const first = firstAt(this.rows, this.window[0]);
      const last = firstAt(this.rows, this.window[1]) - 1;
      const row = this.graph.getSelection();
      const next = row < 0 ? (turn > 0 ? first : last) : row + turn;
      this.select(Math.min(Math.max(next, first), last));
    }

    select(row) {
      if (row >= 0 && row < this.rows.length) this.graph.setSelection(row, undefined, false, true);
    }

    // Returns the position of a finger: 0 at the left edge of the plot, 1 at the right.
    shareOf(touch) {
      const {x, w} = this.graph.getArea();
      return (touch.clientX - this.plot.getBoundingClientRect().left - x) / w;
    }

    // Two fingers zoom and pan, so that each stays at its x. One finger reads the values along x,
    // and scrolls the page.
    touched(event) {
      if (event.touches.length !== 2) return;
      if (event.cancelable) event.preventDefault();
      const [low, high] = this.window.map(this.scales.x.to);
      this.held = Array.from(event.touches, (touch) => low + this.shareOf(touch) * (high - low));
    }

    touchMoved(event) {
      const shares = Array.from(event.touches, (touch) => this.shareOf(touch));
      if (shares.length === 1) return this.readAt(shares[0]);
      if (shares.length !== 2 || !this.held) return;
      if (event.cancelable) event.preventDefault();
      const width = (this.held[1] - this.held[0]) / (shares[1] - shares[0]);
      const low = this.held[0] - shares[0] * width;
      if (Number.isFinite(width) && width > 0) this.place(low, low + width);
    }

    readAt(share) {
      const {x} = this.scales;
      const [low, high] = this.window.map(x.to);
      const target = nearest(this.rows, x.from(low + share * (high - low)));
      if (target) this.select(this.rows.indexOf(target));
    }
  }

  return (host, options) => {
    const chart = new LineChart(host, options);
    return {
      update: (changed) => chart.update(changed),
      show: (window) => chart.show(window),
      destroy: () => chart.destroy(),
    };
  };
})();
