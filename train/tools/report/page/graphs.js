'use strict';

// Shows graphs: nodes with predictions and targets, and edges with attention weights. dygraphs
// places, moves and zooms the nodes, which are the points of its only series.
{
  const MOST_LABELS = 60, MOST_LINES = 5, MOST_NEAR = 16, EDGE_LEVELS = 8, FRAME = 32;
  const SPLITS = {test: 'test', val: 'validation', train: 'training'};

  const clamp = (value, least, most) => Math.min(most, Math.max(least, value));
  const named = (names, i) => names[i] || (i < 0 ? 'unknown' : `class ${i}`);
  const indices = (count) => Array.from({length: count}, (_, i) => i);

  // Returns the graph of the JSON, with arrays decoded, and with the edges of each node.
  function graphOf(data) {
    const count = data.x.shape[0];
    const optional = (array) => array && arrayOf(array).values;
    const graph = {...data, count, class_names: data.class_names ?? [], x: arrayOf(data.x).values,
                   y: arrayOf(data.y).values.map((y) => -y), edges: arrayOf(data.edges).values,
                   weights: optional(data.weights), truth: optional(data.truth),
                   predicted: optional(data.predicted)};
    graph.names = indices(count).map((i) => data.names?.[i]?.trim() || `node ${i}`);
    graph.touching = indices(count).map(() => []);
    for (let e = 0; 2 * e < graph.edges.length; ++e) {
      const [from, to] = graph.edges.subarray(2 * e, 2 * e + 2);
      graph.touching[from].push(e);
      if (to !== from) graph.touching[to].push(e);
    }
    return graph;
  }

  const isKnown = ({truth, predicted}, i) => truth?.[i] >= 0 && predicted?.[i] >= 0;
  const isWrong = (graph, i) => isKnown(graph, i) && graph.truth[i] !== graph.predicted[i];

  // Returns the ways to color nodes; each has groups, and the group of each node (-1: none).
  function colorsOf(graph) {
    const {class_names: names, truth, predicted, count} = graph;
    const classes = (of) => {
      const length = of.reduce((most, c) => Math.max(most, c + 1), names.length);
      return {of, groups: indices(length).map((c) => ({name: named(names, c),
                                                      tint: `--series-${c % 10}`}))};
    };
    const ways = {};
    if (predicted) ways.prediction = classes(predicted);
    if (truth) ways.target = classes(truth);
    if (predicted && truth) {
      ways['right or wrong'] = {
        of: indices(count).map((i) => isKnown(graph, i) ? Number(isWrong(graph, i)) : -1),
        groups: [{name: 'right', tint: '--good'}, {name: 'wrong', tint: '--bad'}]};
    }
    if (!predicted && !truth) ways.nothing = {of: indices(count).fill(-1), groups: []};
    return ways;
  }

  // Returns "Accuracy of the 140 test nodes shown: 0.81" for each split that has nodes.
  function accuracies(graph) {
    return (graph.split ? Object.keys(SPLITS) : [undefined]).flatMap((split) => {
      const some = indices(graph.count).filter((i) =>
        isKnown(graph, i) && (!split || graph.split[i] === split));
      const right = some.filter((i) => !isWrong(graph, i)).length / some.length;
      const nodes = split ? `${some.length} ${SPLITS[split]} nodes` : `${some.length} nodes`;
      return some.length ? [`Accuracy of the ${nodes} shown: ${right.toFixed(2)}`] : [];
    });
  }

  // Returns the edges in levels of opacity and width by their weights; one level without weights.
  function edgeLevels({edges, weights}) {
    const all = edges.length / 2, thin = clamp(45 / Math.sqrt(all), 0.3, 1);
    if (!weights) return [{chosen: indices(all), alpha: 0.7 * thin, width: 1}];
    const greatest = weights.reduce((a, b) => Math.max(a, b), 0) || 1;
    const levels = indices(EDGE_LEVELS).map((level) => {
      const part = thin * (level + 0.5) / EDGE_LEVELS;
      return {chosen: [], alpha: 0.1 + 0.85 * part, width: 0.4 + 2.6 * part};
    });
    weights.forEach((weight, e) => {
      const level = Math.floor(weight / greatest * EDGE_LEVELS);
      levels[clamp(level, 0, EDGE_LEVELS - 1)].chosen.push(e);
    });
    return levels;
  }

  function shortened(name) {
    const letters = Array.from(name.replace(/\s/g, ' '));
    return letters.length > 24 ? `${letters.slice(0, 24).join('')}…` : letters.join('');
  }

  // A graph drawn into an element of the page. told(node) is called with the node that is pointed
  // at or kept; -1: none.
  class Picture {
    constructor(graph, told) {
      Object.assign(this, {graph, told, ways: colorsOf(graph), solo: -1, kept: -1, over: -1});
      [this.way] = Object.values(this.ways);
      this.levels = edgeLevels(graph);
      this.order = indices(graph.count).sort((i, j) => graph.x[i] - graph.x[j]);
      this.root = element('div', {class: 'canvases', tabindex: 0, role: 'application',
        'aria-label': `graph of ${graph.count} nodes; + and − enlarge it, 0 shows all of it; the `
                    + 'search box finds a node',
        onkeydown: ({key}) => {
          if (key === '+' || key === '-') this.zoom(key === '+' ? 0.7 : 1.4);
          if (key === '0') this.whole();
        }});
    }

    // Draws the graph, whose element must be in the page.
    draw() {
      if (this.chart) {
        this.chart.resize();
        this.chart.updateOptions({});
        return;
      }
      const {x, y} = this.graph, hide = {drawAxis: false, drawGrid: false};
      this.chart = new Dygraph(this.root, this.order.map((i) => [x[i], y[i]]), {
        labels: ['x', 'nodes'], axes: {x: hide, y: hide}, legend: 'never', ...this.wholeWindow(),
        interactionModel: this.interactions(),
        plotter: ({drawingContext: context}) => context === this.main && this.drawNodes(context),
        underlayCallback: (context, area, chart) => this.drawEdges(context, chart),
        highlightSeriesOpts: {strokeWidth: 1}, highlightSeriesBackgroundAlpha: 1,
        hideOverlayOnMouseOut: false, drawCallback: (chart) => this.select(chart),
        drawHighlightPointCallback: (chart, name, context, px, py, tint, size, row) =>
          this.drawNear(context, this.order[row]),
        highlightCallback: (event, at, points, row) => this.point(this.order[row]),
        unhighlightCallback: () => this.point(-1),
        clickCallback: () => this.keep(this.over),
      });
    }

    // Returns the ranges in which the whole graph is seen, at the same scale along x and y.
    wholeWindow() {
      const {clientWidth: width, clientHeight: height} = this.root;
      const [x, y] = [this.graph.x, this.graph.y].map((values) => {
        const [low, high] = [Math.min, Math.max].map((of) => values.reduce((a, b) => of(a, b)));
        return {middle: (low + high) / 2, extent: Math.max(high - low, 1e-3)};
      });
      const unit = Math.max(x.extent / (width - 2 * FRAME), y.extent / (height - 2 * FRAME));
      const range = ({middle}, pixels) => [middle - unit * pixels / 2, middle + unit * pixels / 2];
      return {dateWindow: range(x, width), valueRange: range(y, height)};
    }

    whole() { this.chart.updateOptions(this.wholeWindow()); }

    // Shows `factor` times the range, around a place or the middle.
    zoom(factor, place) {
      const ranges = [this.chart.xAxisRange(), this.chart.yAxisRange()];
      const [dateWindow, valueRange] = ranges.map(([low, high], axis) => {
        const center = place ? place[axis] : (low + high) / 2;
        return [low, high].map((end) => center + (end - center) * factor);
      });
      this.chart.updateOptions({dateWindow, valueRange});
    }

    interactions() {
      const {touchstart, touchmove, touchend} = Dygraph.defaultInteractionModel;
      const whilePanning = (act) => (event, chart, context) =>
        context.isPanning && act(event, chart, context);
      return {
        touchmove, touchend, dblclick: () => this.whole(),
        touchstart: (event, chart, context) => {
          const box = this.root.getBoundingClientRect(), [{clientX, clientY}] = event.touches;
          const {row} = chart.findClosestPoint(clientX - box.left, clientY - box.top);
          this.keep(this.order[row] ?? -1);
          touchstart(event, chart, context);
        },
        mousedown: (event, chart, context) => {
          context.initializeMouseDown(event, chart, context);
          Dygraph.startPan(event, chart, context);
        },
        mousemove: whilePanning(Dygraph.movePan), mouseup: whilePanning(Dygraph.endPan),
        wheel: (event, chart) => {
          if (!event.ctrlKey) return;
          event.preventDefault();
          this.zoom(Math.exp(clamp(event.deltaY, -100, 100) / 250),
                    chart.toDataCoords(...chart.eventToDomCoords(event)));
        },
      };
    }

    // ---- The node that is pointed at, or kept.

    shown() { return this.over >= 0 ? this.over : this.kept; }

    select(chart) {
      chart.clearSelection();
      if (this.shown() >= 0) chart.setSelection(this.order.indexOf(this.shown()), 'nodes');
    }

    point(node) {
      this.over = node;
      if (node < 0) this.select(this.chart);  // dygraphs has selected others
      this.told(this.shown());
    }

    keep(node) {
      this.kept = node;
      this.point(-1);
    }

    // Moves the node to the center of the picture.
    find(node) {
      const at = [this.graph.x[node], this.graph.y[node]];
      const [dateWindow, valueRange] = [this.chart.xAxisRange(), this.chart.yAxisRange()].map(
        ([low, high], axis) => [low, high].map((end) => end - (low + high) / 2 + at[axis]));
      this.chart.updateOptions({dateWindow, valueRange});
      this.keep(node);
    }

    // ---- Drawing.

    isFaint(i) { return this.solo >= 0 && this.way.of[i] !== this.solo; }

    strokeEdges(context, edges) {
      const {x, y} = this.places, {edges: ends} = this.graph;
      context.beginPath();
      for (const e of edges) {
        context.moveTo(x[ends[2 * e]], y[ends[2 * e]]);
        context.lineTo(x[ends[2 * e + 1]], y[ends[2 * e + 1]]);
      }
      context.stroke();
    }

    drawEdges(context, chart) {
      this.main = context;  // dygraphs has another for what is highlighted
      const tints = new Map();  // as the theme may have turned
      this.tint = (name) => tints.get(name) ?? tints.set(name, color(name)).get(name);
      const {x, y, edges, count} = this.graph;
      this.places = {x: x.map((value) => chart.toDomXCoord(value)),
                     y: y.map((value) => chart.toDomYCoord(value))};
      const {clientWidth, clientHeight} = this.root, [low, high] = chart.xAxisRange();
      const [left, right] = this.wholeWindow().dateWindow, zoom = (right - left) / (high - low);
      const free = 0.22 * Math.sqrt(clientWidth * clientHeight / count);
      this.radius = clamp(free, 2.4, 8) * zoom ** 0.35;
      context.save();
      context.strokeStyle = color('--faint');
      for (const {chosen, alpha, width} of this.levels) {
        const isFaint = (e) => this.isFaint(edges[2 * e]) || this.isFaint(edges[2 * e + 1]);
        context.lineWidth = width;
        for (const faint of [true, false]) {
          context.globalAlpha = faint ? 0.15 * alpha : alpha;
          this.strokeEdges(context, chosen.filter((e) => isFaint(e) === faint));
        }
      }
      context.restore();
    }

    // Begins a path with the shapes of nodes: squares for training nodes, circles for others.
    traceNode(context, i, radius) {
      const [x, y] = [this.places.x[i], this.places.y[i]];
      context.beginPath();
      if (this.graph.split?.[i] === 'train') {
        context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
      } else {
        context.arc(x, y, radius, 0, 2 * Math.PI);
      }
    }

    // Draws a node; a wrong one has a ring in the color of its target.
    drawNode(context, i) {
      const {way, ways, radius} = this, group = way.groups[way.of[i]];
      const stroke = (ink, width, distance) => {
        this.traceNode(context, i, radius + distance);
        context.strokeStyle = ink;
        context.lineWidth = width;
        context.stroke();
      };
      if (way === ways.prediction && isWrong(this.graph, i)) {
        stroke(this.tint('--panel'), 5, 2.5);
        stroke(this.tint(`--series-${this.graph.truth[i] % 10}`), 2.5, 2.5);
      }
      stroke(this.tint('--panel'), 1.5, 0);
      context.fillStyle = this.tint(group?.tint ?? '--faint');
      context.fill();
    }

    drawNodes(context) {
      const seen = this.order.filter((i) => this.places.x[i] >= 0 && this.places.y[i] >= 0
        && this.places.x[i] <= this.root.clientWidth && this.places.y[i] <= this.root.clientHeight);
      const bright = seen.filter((i) => !this.isFaint(i));
      context.globalAlpha = 0.15;
      seen.filter((i) => this.isFaint(i)).forEach((i) => this.drawNode(context, i));
      context.globalAlpha = 1;
      bright.forEach((i) => this.drawNode(context, i));
      if (bright.length <= MOST_LABELS) this.drawNames(context, bright);
    }

    // Draws the names of nodes beside them, but for those that would overlap an earlier one.
    drawNames(context, nodes) {
      const taken = [], away = this.radius + 8;
      context.font = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
      context.textBaseline = 'middle';
      context.lineJoin = 'round';
      context.lineWidth = 4;
      context.strokeStyle = color('--panel');
      context.fillStyle = color('--ink');
      for (const i of nodes) {
        const text = shortened(this.graph.names[i]), {width} = context.measureText(text);
        const right = this.places.x[i] + away, y = this.places.y[i];
        const x = right + width <= this.root.clientWidth ? right : right - 2 * away - width;
        if (taken.some((other) => other.x < x + width && x < other.x + other.width
                               && Math.abs(other.y - y) < 14)) continue;
        taken.push({x, y, width});
        context.strokeText(text, x, y);
        context.fillText(text, x, y);
      }
    }

    // Draws a node with its edges and neighbors.
    drawNear(context, node) {
      const {edges, touching} = this.graph;
      const near = new Set(touching[node].flatMap((e) => [edges[2 * e], edges[2 * e + 1]]));
      near.delete(node);
      context.strokeStyle = color('--ink');
      context.lineWidth = 1.6;
      this.strokeEdges(context, touching[node]);
      for (const i of [...near, node]) this.drawNode(context, i);
      this.traceNode(context, node, this.radius + 5);
      context.strokeStyle = color('--ink');
      context.lineWidth = 2;
      context.stroke();
      this.drawNames(context, [node, ...(near.size <= MOST_NEAR ? near : [])]);
    }
  }

  // Returns lines about the edges of a node: the strongest, or the first ones.
  function edgeLines({names, edges, weights, touching}, i) {
    const some = touching[i].slice();
    if (weights) some.sort((a, b) => weights[b] - weights[a]);
    const lines = some.slice(0, MOST_LINES).map((e) => {
      if (!weights) return names[edges[2 * e] === i ? edges[2 * e + 1] : edges[2 * e]];
      return `${names[edges[2 * e]]} → ${names[edges[2 * e + 1]]}: ${figure(weights[e])}`;
    });
    const more = some.length - lines.length;
    return more ? [...lines, `and ${more} more`] : lines;
  }

  const verdictOf = (wrong) =>
    element('span', {class: wrong ? 'bad' : 'good'}, wrong ? ' ✗ wrong' : ' ✓ right');

  function tellNode(place, graph, i) {
    if (i < 0) {
      place.replaceChildren(element('p', {class: 'faint'},
                                    'Point at a node to see its name, classes and edges.'));
      return;
    }
    const {class_names: names, truth, predicted, split, touching} = graph;
    const facts = [...(predicted ? [['prediction', named(names, predicted[i])]] : []),
                   ...(truth ? [['target', named(names, truth[i])]] : []),
                   ...(split?.[i] ? [['used for', SPLITS[split[i]] ?? split[i]]] : []),
                   ['edges', String(touching[i].length)]];
    place.replaceChildren(
      element('p', {class: 'name', title: graph.names[i]}, element('b', {}, graph.names[i]),
              isKnown(graph, i) ? verdictOf(isWrong(graph, i)) : ''),
      element('dl', {}, ...facts.flatMap(([name, text]) =>
        [element('dt', {}, name), element('dd', {title: text}, text)])),
      element('ul', {}, ...edgeLines(graph, i).map((text) => element('li', {title: text}, text))));
  }

  // Returns a button for each group of nodes; a pressed button makes the other groups faint.
  function legendOf({of, groups}, chosen) {
    const buttons = groups.map(({name, tint}, group) => element('button', {
      type: 'button', 'aria-pressed': 'false', title: name, onclick: () => {
        const on = buttons[group].getAttribute('aria-pressed') !== 'true';
        buttons.forEach((button, i) => button.setAttribute('aria-pressed', on && i === group));
        chosen(on ? group : -1);
      }}, element('span', {class: 'swatch', style: `background: var(${tint})`}),
      element('span', {class: 'text'}, name),
      element('span', {class: 'count'}, String(of.filter((one) => one === group).length))));
    return element('div', {class: 'legend', role: 'group', 'aria-label': 'classes'}, ...buttons);
  }

  // Returns a box that finds nodes by name; Enter moves to the next match.
  function searchBox({names}, found) {
    const told = element('span', {class: 'faint', role: 'status'});
    let matches = [], at = 0;
    const take = (i) => {
      at = i;
      told.textContent = matches.length ? `${at + 1} of ${matches.length}` : 'none';
      if (matches.length) found(matches[at]);
    };
    const input = element('input', {
      type: 'search', placeholder: 'name of a node', autocomplete: 'off',
      oninput: () => {
        const text = input.value.trim().toLowerCase();
        matches = [...names.keys()].filter((i) => text && names[i].toLowerCase().includes(text));
        if (text) take(0);
        else told.textContent = '';
      },
      onkeydown: (event) => {
        if (event.key === 'Enter' && matches.length) take((at + 1) % matches.length);
      }});
    return element('label', {class: 'control'}, 'Find', input, told);
  }

  // Explains the marks that this graph has, and how to move the picture.
  function keyOf(graph, way) {
    return [...(graph.split?.includes('train') ? ['■ was trained on, ● was not'] : []),
            ...(way === 'prediction' && graph.truth ? ['a ring around a node: the prediction is ' +
              'wrong, its color is the target'] : []),
            ...(graph.weights ? ['a stronger edge has more weight'] : []),
            'drag the picture to move it; ctrl and the wheel, or a pinch, enlarge it'].join('; ');
  }

  // Shows one graph with its controls, and returns its picture.
  function showGraph(host, place, graph) {
    const info = element('div', {class: 'info', role: 'status'});
    const groups = element('div'), key = element('p', {class: 'faint'});
    const picture = new Picture(graph, (node) => {
      host.dataset.node = node < 0 ? '' : node;
      tellNode(info, graph, node);
    });
    const names = Object.keys(picture.ways);
    const colorBy = (name) => {
      const set = (group) => {
        Object.assign(picture, {way: picture.ways[name], solo: group});
        picture.draw();
      };
      groups.replaceChildren(legendOf(picture.ways[name], set));
      key.textContent = keyOf(graph, name);
      set(-1);
    };
    const button = (text, label, act) =>
      element('button', {type: 'button', 'aria-label': label, onclick: act}, text);
    const controls = element('div', {class: 'controls'},
      chooser('Color by', names, (i) => colorBy(names[i])),
      element('span', {class: 'zoom'}, button('+', 'enlarge', () => picture.zoom(0.7)),
              button('−', 'make smaller', () => picture.zoom(1.4)),
              button('Whole', 'show the whole graph', () => picture.whole())),
      searchBox(graph, (i) => picture.find(i)));
    const rates = accuracies(graph).map((text) => element('p', {class: 'accuracy'}, text));
    place.replaceChildren(controls, element('div', {class: 'stage'}, picture.root,
      element('div', {class: 'side'}, groups, ...rates, info)), key);
    colorBy(names[0]);
    tellNode(info, graph, -1);
    return picture;
  }

  parts.graph = (host, {graphs}) => {
    const place = element('div');
    let picture;
    const choose = (index) => {
      host.dataset.graph = index;
      picture = showGraph(host, place, graphOf(graphs[index]));
    };
    host.classList.add('graph');
    const titles = graphs.map(({title}) => title);
    host.append(graphs.length === 1 ? element('p', {class: 'title'}, titles[0])
      : element('div', {class: 'controls'}, chooser('Graph', titles, choose)), place);
    choose(0);
    drawn(host, () => picture.draw());
  };
}
