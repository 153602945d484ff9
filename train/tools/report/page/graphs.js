// Shows graphs: nodes with predictions and targets, and edges with attention weights. The user can
// move and zoom the picture, and move each node.
{
  const LEAST_ZOOM = 0.5, MOST_ZOOM = 60, ZOOM_STEP = 1.3, PAN_STEP = 60, REACH = 12, FRAME = 64;
  const MOST_LABELS = 60, MOST_LINES = 5, MOST_NEAR = 16, EDGE_LEVELS = 8, EDGES_AT_ONCE = 400;
  const MANY_EDGES = 2000, SHIFTED_FOR = 150;  // milliseconds
  const DRAGGING = 'Drag the picture to move it, or a node to place it elsewhere; ctrl and the '
                 + 'wheel, or a pinch, enlarge.';
  const SPLITS = {test: 'test', val: 'validation', train: 'training'};

  const clamp = (value, least, most) => Math.min(most, Math.max(least, value));
  const named = (names, i) => names[i] || (i < 0 ? 'unknown' : `class ${i}`);

  // Returns the graph of the JSON, with arrays decoded, and with the edges of each node.
  function graphOf(data) {
    const count = data.x.shape[0];
    const optional = (array) => array && arrayOf(array).values;
    const graph = {...data, count, class_names: data.class_names ?? [],
                   x: arrayOf(data.x).values.slice(), y: arrayOf(data.y).values.slice(),
                   edges: arrayOf(data.edges).values, weights: optional(data.weights),
                   truth: optional(data.truth), predicted: optional(data.predicted)};
    graph.names = Array.from({length: count}, (_, i) => data.names?.[i]?.trim() || `node ${i}`);
    graph.touching = Array.from({length: count}, () => []);
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
      return {of, groups: Array.from({length}, (_, c) => ({name: named(names, c),
                                                           tint: () => seriesColor(c)}))};
    };
    const ways = {};
    if (predicted) ways.prediction = classes(predicted);
    if (truth) ways.target = classes(truth);
    if (predicted && truth) {
      ways['right or wrong'] = {
        of: Int32Array.from({length: count},
                            (_, i) => isKnown(graph, i) ? Number(isWrong(graph, i)) : -1),
        groups: [{name: 'right', tint: () => color('--good')},
                 {name: 'wrong', tint: () => color('--bad')}]};
    }
    if (!predicted && !truth) {
      ways.nothing = {of: new Int32Array(count).fill(-1), groups: []};
    }
    return ways;
  }

  // Returns "Accuracy of the 140 test nodes shown: 0.81" for each split that has nodes.
  function accuracies(graph) {
    const told = [];
    for (const split of graph.split ? Object.keys(SPLITS) : [undefined]) {
      const name = split ? `${SPLITS[split]} ` : '';
      let right = 0, all = 0;
      for (let i = 0; i < graph.count; ++i) {
        if (!isKnown(graph, i) || (split && graph.split[i] !== split)) continue;
        ++all;
        right += graph.truth[i] === graph.predicted[i];
      }
      if (all) told.push(`Accuracy of the ${all} ${name}nodes shown: ${(right / all).toFixed(2)}`);
    }
    return told;
  }

  const rangeOf = (values) => [values.reduce((a, b) => Math.min(a, b)),
                               values.reduce((a, b) => Math.max(a, b))];

  // Returns the view: the point (x, y) of the graph at the center of the canvas, and the zoom; at
  // zoom 1 the whole graph fits.
  function viewOf({x, y}) {
    const [left, right, top, bottom] = [...rangeOf(x), ...rangeOf(y)];
    const home = {x: (left + right) / 2, y: (top + bottom) / 2, zoom: 1};
    const view = {...home, width: 1, height: 1};
    const across = Math.max(right - left, 1e-3), down = Math.max(bottom - top, 1e-3);
    const scale = () => view.zoom * Math.max(1, Math.min((view.width - FRAME) / across,
                                                         (view.height - FRAME) / down));
    const toScreen = (x, y) => [(x - view.x) * scale() + view.width / 2,
                                (y - view.y) * scale() + view.height / 2];
    const toGraph = (x, y) => [(x - view.width / 2) / scale() + view.x,
                               (y - view.height / 2) / scale() + view.y];
    const pan = (byX, byY) => {
      view.x = clamp(view.x - byX / scale(), left - across / 2, right + across / 2);
      view.y = clamp(view.y - byY / scale(), top - down / 2, bottom + down / 2);
    };
    // Zooms around the point (x, y) of the canvas.
    const zoom = (by, x = view.width / 2, y = view.height / 2) => {
      const [fixedX, fixedY] = toGraph(x, y);
      view.zoom = clamp(view.zoom * by, LEAST_ZOOM, MOST_ZOOM);
      const [newX, newY] = toScreen(fixedX, fixedY);
      pan(x - newX, y - newY);
    };
    const whole = () => Object.assign(view, home);
    return Object.assign(view, {toScreen, toGraph, pan, zoomBy: zoom, whole});
  }

  function radiusOf({count}, {width, height, zoom}) {
    return clamp(0.22 * Math.sqrt(width * height / count), 2.4, 8) * zoom ** 0.35;
  }

  // Draws edges in several paths, because short paths are drawn faster than a long one.
  function strokeEdges(context, edges, chosen, places) {
    for (let start = 0; start < chosen.length; start += EDGES_AT_ONCE) {
      context.beginPath();
      for (const e of chosen.slice(start, start + EDGES_AT_ONCE)) {
        const [from, to] = [edges[2 * e], edges[2 * e + 1]];
        context.moveTo(places.x[from], places.y[from]);
        context.lineTo(places.x[to], places.y[to]);
      }
      context.stroke();
    }
  }

  // Returns the edges in levels of opacity and width by their weights; one level without weights.
  function edgeLevels({edges, weights}) {
    const all = edges.length / 2;
    const levels = Array.from({length: weights ? EDGE_LEVELS : 1}, () => []);
    const greatest = weights ? weights.reduce((a, b) => Math.max(a, b), 0) || 1 : 1;
    for (let e = 0; e < all; ++e) {
      const part = weights ? weights[e] / greatest : 0;
      levels[clamp(Math.floor(part * EDGE_LEVELS), 0, levels.length - 1)].push(e);
    }
    const thin = clamp(45 / Math.sqrt(all), 0.3, 1);  // the more edges, the thinner
    return levels.map((chosen, level) => {
      const part = thin * (level + 0.5) / EDGE_LEVELS;
      return weights ? {chosen, alpha: 0.1 + 0.85 * part, width: 0.4 + 2.6 * part}
                     : {chosen, alpha: 0.7 * thin, width: 1};
    });
  }

  function tracePlace(context, x, y, radius, square) {
    if (square) {
      context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
    } else {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
  }

  // Begins a path with the shapes of nodes: squares for training nodes, circles for others.
  function traceNodes(context, graph, nodes, places, radius) {
    context.beginPath();
    for (const i of nodes) {
      tracePlace(context, places.x[i], places.y[i], radius, graph.split?.[i] === 'train');
    }
  }

  function gathered(nodes, keyOf) {
    const groups = new Map();
    for (const i of nodes) {
      const key = keyOf(i);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(i);
    }
    return groups;
  }

  function shortened(name) {
    const letters = Array.from(name.slice(0, 80).replace(/\s/g, ' '));
    return letters.length > 24 ? `${letters.slice(0, 24).join('')}…` : letters.join('');
  }

  const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && Math.abs(a.y - b.y) < 14;

  // Draws the names of nodes, to the right of each node or, at the border, to the left. Omits a
  // name that would overlap an earlier one. `ground`: whether names have a background.
  function drawNames(context, graph, nodes, places, {radius, wide, ground}) {
    const taken = [], away = radius + 8;
    context.font = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    context.lineJoin = 'round';
    context.lineWidth = 3;
    context.strokeStyle = color('--panel');
    for (const i of nodes) {
      const text = shortened(graph.names[i]), {width} = context.measureText(text);
      const right = places.x[i] + away;
      const x = right + width <= wide ? right : places.x[i] - away - width;
      const box = {x, y: places.y[i], width};
      if (taken.some((other) => meet(box, other))) continue;
      taken.push(box);
      context.fillStyle = color('--panel');
      if (ground) context.fillRect(x - 2, box.y - 8, width + 4, 16);
      context.fillStyle = color('--ink');
      context.strokeText(text, x, box.y);
      context.fillText(text, x, box.y);
    }
  }

  // Returns the picture of the graph: one canvas of the whole graph, and one above it for the node
  // under the pointer, so that pointing does not draw thousands of edges again.
  function drawingOf(graph) {
    const view = viewOf(graph), levels = edgeLevels(graph);
    const places = {x: new Float32Array(graph.count), y: new Float32Array(graph.count)};
    const all = Array.from({length: graph.count}, (_, i) => i);
    const below = element('canvas', {'aria-hidden': 'true'});
    const canvas = element('canvas', {
      class: 'over', tabindex: 0, role: 'application',
      'aria-label': `graph of ${graph.count} nodes; arrow keys move it, + and − enlarge it, `
                  + '0 shows all of it; the search box finds a node'});
    let way, solo = -1, node = -1, due = 0, waiting = 0, drawnView;

    const faded = (i) => solo >= 0 && way.of[i] !== solo;
    const place = () => {
      for (let i = 0; i < graph.count; ++i) {
        [places.x[i], places.y[i]] = view.toScreen(graph.x[i], graph.y[i]);
      }
    };
    const isSeen = (i) => places.x[i] >= 0 && places.x[i] <= view.width
                       && places.y[i] >= 0 && places.y[i] <= view.height;
    const mayBeSeen = (e) => {
      const from = graph.edges[2 * e], to = graph.edges[2 * e + 1];
      const [x, y] = [places.x, places.y];
      return !(Math.max(x[from], x[to]) < 0 || Math.min(x[from], x[to]) > view.width
            || Math.max(y[from], y[to]) < 0 || Math.min(y[from], y[to]) > view.height);
    };
    const drawEdges = (context) => {
      context.strokeStyle = color('--faint');
      for (const {chosen, alpha, width} of levels) {
        const bothOrNot = gathered(chosen.filter(mayBeSeen), (e) =>
          faded(graph.edges[2 * e]) || faded(graph.edges[2 * e + 1]));
        for (const [fades, edges] of bothOrNot) {
          context.globalAlpha = fades ? 0.15 * alpha : alpha;
          context.lineWidth = width;
          strokeEdges(context, graph.edges, edges, places);
        }
      }
      context.globalAlpha = 1;
    };
    // Draws a ring in the color of the target around each wrong node.
    const drawRings = (context, nodes, radius) => {
      const wrong = nodes.filter((i) => isWrong(graph, i));
      for (const [truth, some] of gathered(wrong, (i) => graph.truth[i])) {
        traceNodes(context, graph, some, places, radius + 2.5);
        context.lineWidth = 5;
        context.strokeStyle = color('--panel');
        context.stroke();
        context.lineWidth = 2.5;
        context.strokeStyle = seriesColor(truth);
        context.stroke();
      }
    };
    const drawNodes = (context, nodes, radius) => {
      if (way === ways.prediction) drawRings(context, nodes, radius);
      for (const [group, some] of gathered(nodes, (i) => way.of[i])) {
        traceNodes(context, graph, some, places, radius);
        context.lineWidth = 1.5;
        context.strokeStyle = color('--panel');
        context.fillStyle = way.groups[group] ? way.groups[group].tint() : color('--faint');
        context.stroke();
        context.fill();
      }
    };
    const drawOver = () => {
      const {context} = contextOf(canvas), radius = radiusOf(graph, view);
      if (node < 0) return;
      const edges = graph.touching[node];
      const near = [...new Set(edges.flatMap((e) => [...graph.edges.subarray(2 * e, 2 * e + 2)]))];
      const others = near.filter((i) => i !== node);
      context.strokeStyle = color('--ink');
      context.lineWidth = 1.6;
      context.globalAlpha = 0.8;
      strokeEdges(context, graph.edges, edges, places);
      context.globalAlpha = 1;
      drawNodes(context, [...others, node], radius);
      traceNodes(context, graph, [node], places, radius + 5);
      context.strokeStyle = color('--ink');
      context.lineWidth = 2;
      context.stroke();
      const named = [node, ...(others.length <= MOST_NEAR ? others : [])];
      drawNames(context, graph, named, places, {radius, wide: view.width, ground: true});
    };
    const draw = () => {
      const {context, width, height} = contextOf(below);
      Object.assign(view, {width, height});
      const radius = radiusOf(graph, view);
      drawnView = {...view};
      below.style.transform = '';
      place();
      drawEdges(context);
      const seen = all.filter(isSeen);
      context.globalAlpha = 0.15;
      drawNodes(context, seen.filter(faded), radius);
      context.globalAlpha = 1;
      const bright = seen.filter((i) => !faded(i));
      drawNodes(context, bright, radius);
      if (bright.length <= MOST_LABELS) {
        drawNames(context, graph, bright, places, {radius, wide: width});
      }
      drawOver();
    };
    // Moves the drawn picture to the current view, which is fast for any number of edges, and draws
    // it again later.
    const shift = () => {
      const [x, y] = view.toScreen(drawnView.x, drawnView.y);
      below.style.transform = `translate(${x - view.width / 2}px, ${y - view.height / 2}px) `
                            + `scale(${view.zoom / drawnView.zoom})`;
      place();
      drawOver();
      waiting = waiting || setTimeout(() => {
        waiting = 0;
        draw();
      }, SHIFTED_FOR);
    };
    const drawSoon = () => {
      cancelAnimationFrame(due);
      due = requestAnimationFrame(graph.edges.length / 2 > MANY_EDGES ? shift : draw);
    };
    // Returns the node at a place of the canvas, or -1.
    const nodeAt = (x, y) => {
      let nearest = -1, least = Math.max(REACH, radiusOf(graph, view)) ** 2;
      for (let i = 0; i < graph.count; ++i) {
        const distance = (places.x[i] - x) ** 2 + (places.y[i] - y) ** 2;
        if (distance < least) [nearest, least] = [i, distance];
      }
      return nearest;
    };
    const ways = colorsOf(graph);
    [way] = Object.values(ways);
    return {
      canvas, view, ways, draw, drawSoon, nodeAt,
      root: element('div', {class: 'canvases'}, below, canvas),
      point(i) { node = i; drawOver(); },
      colorBy(name) { way = ways[name]; solo = -1; draw(); },
      only(group) { solo = group; draw(); },
      isSeen,
    };
  }

  const isTap = (press, {offsetX, offsetY}) =>
    Math.hypot(offsetX - press.x, offsetY - press.y) < 5;

  // Handles dragging, pinching, the wheel with ctrl, and keys. hovered(i) and tapped(i) get a node
  // or -1. Returns the functions of the keys.
  function listen(graph, drawing, {hovered, tapped}) {
    const {canvas, view} = drawing, fingers = new Map();
    let press;

    const pinch = (event) => {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const before = fingers.get(event.pointerId), [x, y] = [event.offsetX, event.offsetY];
      const length = ({x: ax, y: ay}) => Math.max(1, Math.hypot(ax - other.x, ay - other.y));
      view.pan((x - before.x) / 2, (y - before.y) / 2);
      view.zoomBy(length({x, y}) / length(before), (x + other.x) / 2, (y + other.y) / 2);
    };
    const drag = (event) => {
      const before = fingers.get(event.pointerId);
      if (press.node >= 0) {
        [graph.x[press.node], graph.y[press.node]] = view.toGraph(event.offsetX, event.offsetY);
      } else {
        view.pan(event.offsetX - before.x, event.offsetY - before.y);
      }
    };
    canvas.addEventListener('pointerdown', (event) => {
      const {offsetX: x, offsetY: y, pointerId} = event;
      canvas.setPointerCapture(pointerId);
      fingers.set(pointerId, {x, y});
      press = {x, y, node: drawing.nodeAt(x, y), moved: fingers.size > 1};
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!fingers.has(event.pointerId)) {
        hovered(drawing.nodeAt(event.offsetX, event.offsetY));
        return;
      }
      press.moved = press.moved || !isTap(press, event);
      if (!press.moved) return;
      if (fingers.size === 2) pinch(event);
      else drag(event);
      fingers.set(event.pointerId, {x: event.offsetX, y: event.offsetY});
      drawing.drawSoon();
    });
    const release = (event) => {
      const tap = fingers.size === 1 && !press.moved && event.type === 'pointerup';
      fingers.delete(event.pointerId);
      if (fingers.size) press.node = -1;
      if (tap) tapped(press.node);
    };
    canvas.addEventListener('pointerup', release);
    canvas.addEventListener('pointercancel', release);
    canvas.addEventListener('pointerleave', () => hovered(-1));
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      view.zoomBy(Math.exp(-clamp(event.deltaY, -100, 100) / 250), event.offsetX, event.offsetY);
      drawing.drawSoon();
    }, {passive: false});

    const keys = {
      '+': () => view.zoomBy(ZOOM_STEP), '=': () => view.zoomBy(ZOOM_STEP),
      '-': () => view.zoomBy(1 / ZOOM_STEP), '0': () => view.whole(),
      ArrowLeft: () => view.pan(PAN_STEP, 0), ArrowRight: () => view.pan(-PAN_STEP, 0),
      ArrowUp: () => view.pan(0, PAN_STEP), ArrowDown: () => view.pan(0, -PAN_STEP),
    };
    canvas.addEventListener('keydown', (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
      drawing.drawSoon();
    });
    return keys;
  }

  // Returns the facts about a node: pairs of a name and a text.
  function factsOf(graph, i) {
    const {class_names: names, truth, predicted, split, touching} = graph;
    const facts = [];
    if (predicted) facts.push(['prediction', named(names, predicted[i])]);
    if (truth) facts.push(['target', named(names, truth[i])]);
    if (split?.[i]) facts.push(['used for', SPLITS[split[i]] ?? split[i]]);
    facts.push(['edges', String(touching[i].length)]);
    return facts;
  }

  // Returns lines on the edges of a node, in descending order of weight: "a → b: 0.31".
  function edgeLines({edges, weights, touching, names}, i) {
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
    const verdict = isKnown(graph, i) ? verdictOf(isWrong(graph, i)) : '';
    const facts = factsOf(graph, i).flatMap(([name, text]) =>
      [element('dt', {}, name), element('dd', {title: text}, text)]);
    const lines = edgeLines(graph, i).map((text) => element('li', {title: text}, text));
    place.replaceChildren(element('p', {class: 'name', title: graph.names[i]},
                                  element('b', {}, graph.names[i]), verdict),
                          element('dl', {}, ...facts), element('ul', {}, ...lines));
  }

  // Returns a button for each group of nodes; a pressed button makes the other groups faint.
  function legend({of, groups}, chosen) {
    const counts = groups.map(() => 0);
    for (const group of of) if (group >= 0) ++counts[group];
    let pressed = -1;
    const buttons = groups.map(({name, tint}, group) => element('button', {
      type: 'button', 'aria-pressed': 'false', title: name, onclick: () => {
        pressed = pressed === group ? -1 : group;
        buttons.forEach((button, i) => button.setAttribute('aria-pressed', i === pressed));
        chosen(pressed);
      }}, element('span', {class: 'swatch'}), element('span', {class: 'text'}, name),
      element('span', {class: 'count'}, String(counts[group]))));
    const draw = () => groups.forEach(({tint}, i) => {
      buttons[i].firstChild.style.background = tint();
    });
    draw();
    return {root: element('div', {class: 'legend', role: 'group', 'aria-label': 'classes'},
                          ...buttons), draw};
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
        else { told.textContent = ''; found(-1); }
      },
      onkeydown: (event) => {
        if (event.key === 'Enter' && matches.length) take((at + 1) % matches.length);
      }});
    return element('label', {class: 'control'}, 'Find', input, told);
  }

  // Explains the marks that this graph has.
  function keyOf(graph, way) {
    const told = [];
    if (graph.split?.includes('train')) told.push('■ was trained on, ● was not');
    if (way === 'prediction' && graph.truth) {
      told.push('a ring around a node: the prediction is wrong, its color is the target');
    }
    if (graph.weights) told.push('a stronger edge has more weight');
    return told.length ? `${told.join('; ')}.` : '';
  }

  function wholeVerdict({truth_class: truth, predicted_class: predicted}) {
    if (predicted === undefined) return '';
    const told = element('p', {class: 'verdict'}, 'Predicted: ', element('b', {}, predicted));
    if (truth !== undefined) {
      told.append(', target: ', element('b', {}, truth), verdictOf(truth !== predicted));
    }
    return told;
  }

  // Shows one graph with its controls, and returns a function that draws the graph again.
  function showGraph(host, place, graph) {
    const drawing = drawingOf(graph), info = element('div', {class: 'info', role: 'status'});
    const names = Object.keys(drawing.ways);
    const groups = element('div'), key = element('p', {class: 'faint'});
    let kept = -1, over = -1, told, shownLegend;

    const tell = () => {
      const node = over >= 0 ? over : kept;
      if (node === told) return;
      told = node;
      host.dataset.node = node < 0 ? '' : node;
      drawing.point(node);
      tellNode(info, graph, node);
    };
    const hovered = (i) => { over = i; tell(); };
    const tapped = (i) => { kept = i; tell(); };
    const found = (i) => {
      [kept, over] = [i, -1];
      if (i >= 0 && !drawing.isSeen(i)) {
        Object.assign(drawing.view, {x: graph.x[i], y: graph.y[i]});
        drawing.draw();
      }
      tell();
    };
    const colorBy = (name) => {
      drawing.colorBy(name);
      shownLegend = legend(drawing.ways[name], drawing.only);
      groups.replaceChildren(shownLegend.root);
      key.textContent = keyOf(graph, name);
    };
    const keys = listen(graph, drawing, {hovered, tapped});
    const button = (text, label, act) => element('button', {
      type: 'button', 'aria-label': label, onclick: () => { act(); drawing.draw(); }}, text);
    const controls = element('div', {class: 'controls'},
      ...(names.length > 1 ? [chooser('Color by', names, (i) => colorBy(names[i]))] : []),
      element('span', {class: 'zoom'}, button('+', 'enlarge', keys['+']),
              button('−', 'make smaller', keys['-']),
              button('Whole', 'show the whole graph', keys['0'])),
      searchBox(graph, found));
    const rates = accuracies(graph).map((text) => element('p', {class: 'accuracy'}, text));
    const side = element('div', {class: 'side'}, groups, ...rates, info);
    place.replaceChildren(wholeVerdict(graph), controls,
                          element('div', {class: 'stage'}, drawing.root, side), key,
                          element('p', {class: 'faint'}, DRAGGING));
    colorBy(names[0]);
    tell();
    return () => {
      shownLegend.draw();
      drawing.draw();
    };
  }

  parts.graph = (host, data) => {
    const place = element('div');
    let draw;
    const choose = (index) => {
      host.dataset.graph = index;
      draw = showGraph(host, place, graphOf(data.graphs[index]));
    };
    host.classList.add('graph');
    if (data.graphs.length > 1) {
      host.append(element('div', {class: 'controls'},
                          chooser('Graph', data.graphs.map(({title}) => title), choose)));
    } else {
      host.append(element('p', {class: 'title'}, data.graphs[0].title));
    }
    host.append(place);
    choose(0);
    drawn(host, () => draw());
  };
}
