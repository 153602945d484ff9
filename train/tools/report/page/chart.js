'use strict';

// Line charts, drawn by dygraphs, which also zooms and pans them. dygraphs parses titles and labels
// as HTML, so it gets none: its series are called s0, s1, …, and the title, the units and the
// legend are elements of this page.

// new LineChart(host, {title, xLabel, yLabel, lines, height, logX, logY, smoothing, valueRange,
//                      vertical, zoomed}) appends a chart to the host.
// lines: [{name, detail, color, points, dashed, marks, thin, smooth}, …] where
//   points  [[x, y], …] or, to draw a band, [[x, low, middle, high], …], by ascending x; a y may
//           be null or NaN; of [x, y, title], the title is shown instead of y
//   detail  follows the name in the legend
//   color   index for seriesColor(), or null for a faint line
//   smooth  whether this line is smoothed
//   marks   dots without a line
// vertical: x of a dashed line; zoomed([low, high], or null for all): called when the user zooms.
let LineChart;
{
  const middle = (point) => point[point.length === 4 ? 2 : 1];
  const isBand = ({points}) => points.length > 0 && points[0].length === 4;
  const numberOf = (value) => Number.isFinite(value) ? value : NaN;

  // Returns the exponential moving average over the points, with bias correction.
  function smoothed(points, keep) {
    const sums = [0, 0, 0];
    let weight = 0;
    return points.map(([x, ...values]) => {
      if (!values.every(Number.isFinite)) return [x, ...values];
      weight = keep * weight + 1 - keep;
      return [x, ...values.map((value, i) => {
        sums[i] = keep * sums[i] + (1 - keep) * value;
        return Number((sums[i] / weight).toPrecision(10));  // so that constants stay constant
      })];
    });
  }

  // Returns the data for dygraphs: a row for each x with a cell for each series. null: the series
  // has no point at this x, and its line continues; NaN: the line breaks. A band's edge at or below
  // 0 is at the least positive value of a log axis.
  function rowsOf(shown, logY) {
    const rows = new Map(), bands = shown.some(isBand);
    const positive = shown.flatMap(({points}) => points.map(middle)).filter((y) => y > 0);
    const least = logY ? positive.reduce((a, b) => Math.min(a, b), Infinity) : -Infinity;
    const bandOf = (point) =>
      [Math.max(least, point[1]), middle(point), point.length === 4 ? point[3] : point[1]];
    shown.forEach(({points}, column) => {
      let times = 0;  // that this x was there before
      points.forEach((point, i) => {
        times = i > 0 && points[i - 1][0] === point[0] ? times + 1 : 0;
        const key = `${point[0]} ${times}`;
        if (!rows.has(key)) rows.set(key, [point[0], ...shown.map(() => null)]);
        rows.get(key)[column + 1] = bands ? bandOf(point).map(numberOf) : numberOf(middle(point));
      });
    });
    return [...rows.values()].sort((a, b) => a[0] - b[0]);
  }

  const tickText = (value) => String(Number(value.toPrecision(10)));

  // Returns the options of a series; `raw`: of the values behind a smoothed line.
  function strokeOf({line, raw}) {
    const ink = line.color === null ? color('--faint') : seriesColor(line.color);
    return {
      color: raw ? `${ink}4d` : ink,  // with an opacity of 0.3
      strokeWidth: line.marks ? 0 : raw || line.thin ? 1.2 : 2,
      strokePattern: line.dashed ? [7, 4] : null,
      drawPoints: Boolean(line.marks), pointSize: line.marks ? 4.5 : 2.5,
      highlightCircleSize: raw ? 0 : 4,
    };
  }

  // One finger scrolls the page, two zoom and pan.
  const byTwoFingers = (act) => (event, graph, context) => {
    if (event.touches.length === 2) act(event, graph, context);
  };
  const {touchstart, touchmove, ...byMouse} = Dygraph.defaultInteractionModel;
  const interactionModel = {...byMouse, touchstart: byTwoFingers(touchstart),
                            touchmove: byTwoFingers(touchmove)};

  LineChart = class {
    constructor(host, options) {
      this.options = {smoothing: 0, ...options};
      this.hidden = new Set();  // names of hidden lines
      this.plot = element('div', {class: 'chart-plot', style: `height: ${options.height}px`});
      this.note = element('div', {class: 'chart-note'});
      this.at = element('div', {class: 'chart-at'});
      this.legend = element('div', {class: 'chart-legend'});
      host.append(element('div', {class: 'chart'},
        element('div', {class: 'chart-title'}, options.title),
        element('div', {class: 'chart-unit'}, options.yLabel ?? ''), this.plot,
        element('div', {class: 'chart-unit chart-x'}, options.xLabel), this.note, this.at,
        this.legend));
      this.relabel();
      drawn(host, () => this.draw());
    }

    update(options) {
      Object.assign(this.options, options);
      if (options.lines) this.relabel();
      if ('logX' in options || 'logY' in options) this.graph?.resetZoom();
      this.draw();
    }

    // Updates the legend, which has a button for each line that hides and shows the line.
    relabel() {
      const {lines} = this.options;
      this.values = lines.map(() => element('span', {class: 'chart-value'}));
      this.legend.replaceChildren(...lines.map((line, i) => {
        const kind = line.marks ? 'marks' : line.dashed ? 'dashed' : line.thin ? 'thin' : 'solid';
        const ink = line.color === null ? 'var(--faint)' : `var(--series-${line.color % 10})`;
        const key = line.name + (line.detail ?? '');
        const entry = toggleButton('', (on) => {
          if (on) this.hidden.delete(key);
          else this.hidden.add(key);
          this.draw();
        }, !this.hidden.has(key));
        entry.append(element('span', {class: `chart-swatch ${kind}`, style: `color: ${ink}`}),
                     element('span', {class: 'chart-name'}, key.trim() || '(no name)'),
                     this.values[i]);
        return entry;
      }));
    }

    // Returns the lines to draw: below a smoothed line, the unchanged values as a faint line.
    series() {
      const {lines, smoothing, logX} = this.options;
      return lines.filter(({name, detail}) => !this.hidden.has(name + (detail ?? '')))
        .flatMap((line) => {
          const points = logX ? line.points.filter(([x]) => x > 0) : line.points;
          if (!smoothing || !line.smooth) return [{line, points}];
          const average = {line, points: smoothed(points, smoothing)};
          return isBand(line) ? [average] : [{line, points, raw: true}, average];
        });
    }

    draw() {
      const {options} = this, shown = this.series(), points = shown.flatMap((one) => one.points);
      const logY = Boolean(options.logY && points.some((point) => middle(point) > 0));
      const rows = rowsOf(shown, logY), line = color('--line');
      const left = logY ? points.filter((point) => middle(point) <= 0).length : 0;
      this.note.textContent = points.length === 0 ? 'There are no values here.' :
        left ? `${left} values are at or below 0, which a log axis cannot show.` : '';
      if (rows.length === 0) rows.push([1, ...(shown.length ? shown.map(() => null) : [null])]);
      const series = Object.fromEntries(shown.map((one, i) => [`s${i}`, strokeOf(one)]));
      const [[x]] = rows, half = Math.abs(x) / 2 || 1;
      const alone = rows.length === 1 ? [x - half, x + half] : null;
      const changing = {
        file: rows, series, labels: rows[0].map((_, i) => i ? `s${i - 1}` : 'x'),
        customBars: shown.some(isBand), gridLineColor: line, axisLineColor: line,
        ...(alone && {dateWindow: alone}), xRangePad: options.logX ? 0 : 6, axes: {
          x: {logscale: Boolean(options.logX), axisLabelFormatter: tickText, pixelsPerLabel: 60},
          y: {logscale: logY, axisLabelFormatter: tickText, axisLabelWidth: 54,
              valueRange: options.valueRange ?? null}},
      };
      if (this.graph) {
        this.graph.resize();
        this.graph.updateOptions(changing);
      } else {
        this.graph = new Dygraph(this.plot, rows, {...changing, ...this.behavior()});
      }
      this.read(null);
    }

    behavior() {
      const {vertical, zoomed} = this.options;
      return {
        legend: 'never', connectSeparatedPoints: true, axisLabelFontSize: 12, gridLineWidth: 1,
        yRangePad: 10, rightGap: 16, fillAlpha: 0.18, interactionModel,
        highlightCallback: (event, x) => this.read(x),
        unhighlightCallback: () => this.read(null),
        zoomCallback: (low, high) => zoomed?.(this.graph.isZoomed('x') ? [low, high] : null),
        underlayCallback: (context, {y, h}, graph) => {
          if (vertical === undefined) return;
          context.setLineDash([5, 4]);
          context.strokeStyle = color('--ink');
          context.lineWidth = 3;
          context.beginPath();
          context.moveTo(graph.toDomXCoord(vertical), y);
          context.lineTo(graph.toDomXCoord(vertical), y + h);
          context.stroke();
          context.setLineDash([]);
        },
      };
    }

    // Writes the values nearest to x into the legend; null: the last value of each line.
    read(x) {
      const {lines, xLabel} = this.options;
      this.at.textContent = x === null ? 'Last values' : `${xLabel}: ${figure(x)}`;
      lines.forEach(({points}, i) => {
        const point = x === null ? points.at(-1) : points.reduce((best, other) =>
          Math.abs(other[0] - x) < Math.abs(best[0] - x) ? other : best, points[0]);
        const place = point && x !== null && point[0] !== x ? ` at ${figure(point[0])}` : '';
        const value = point && (point.length === 3 ? point[2] : figure(middle(point)));
        this.values[i].textContent = point ? value + place : '';
      });
    }
  };
}

// Shows one chart, whose lines are those of LineChart.
parts.chart = (host, {title, x, y, lines, logX, logY}) => {
  const panel = element('div', {class: 'panel'});
  host.append(element('div', {class: 'controls'},
    toggleButton('Log x axis', (on) => chart.update({logX: on}), logX),
    toggleButton('Log y axis', (on) => chart.update({logY: on}), logY)), panel);
  const chart = new LineChart(panel, {title, xLabel: x, yLabel: y, lines, logX, logY, height: 320});
};
