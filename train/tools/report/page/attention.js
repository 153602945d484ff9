// Shows the attention of a model in examples: the user points at a token or a patch of an image,
// the query, and the keys are colored by its weights. Also shows each head, and the predictions.
{
  const {visible, quoted, percent, token, tokenRow, roving, largest, weigh} = tokens;

  const same = (a, b) => a.length === b.length && a.every((text, i) => text === b[i]);

  // Returns one head of the weights (heads, rows, columns) as fractions, or the mean of all heads.
  function headOf({shape: [heads, rows, columns], values}, head) {
    const size = rows * columns, matrix = {rows, columns, values: new Float32Array(size)};
    const [first, count] = head === 'mean' ? [0, heads] : [head, 1];
    const scale = 1 / (255 * count);
    for (let one = first; one < first + count; ++one) {
      for (let i = 0; i < size; ++i) matrix.values[i] += scale * values[one * size + i];
    }
    matrix.greatest = matrix.values.reduce((a, b) => Math.max(a, b), 0);
    return matrix;
  }

  const rowOf = ({columns, values}, row) => values.subarray(row * columns, (row + 1) * columns);

  // Paints a pixel for each weight w, with opacity (w / greatest) ** power. The default, the square
  // root, makes small weights visible beside large ones; scaleOf() returns its scale.
  function paintWeights(canvas, {rows, columns, values, greatest}, tint, power = 0.5) {
    canvas.width = columns;
    canvas.height = rows;
    const image = new ImageData(columns, rows), context = canvas.getContext('2d');
    values.forEach((weight, i) => {
      image.data[4 * i + 3] = 255 * (weight / (greatest || 1)) ** power;
    });
    context.putImageData(image, 0, 0);
    context.globalCompositeOperation = 'source-in';
    context.fillStyle = tint;
    context.fillRect(0, 0, columns, rows);
  }

  const scaleOf = (greatest) => element('div', {class: 'scale'},
    ...[0, 0.25, 0.5, 0.75, 1].map((color) => element('span', {}, percent(color ** 2 * greatest))));

  // Returns "The query “cat” attends most to “sat” (41 %), “on” (20 %) and “the” (9 %)."
  function summary({queries, keys}, query, weights) {
    const most = largest(weights, 3).map((i) => `${quoted(keys[i])} (${percent(weights[i])})`);
    if (most.length === 0) return `The query ${quoted(queries[query])} attends to nothing.`;
    const last = most.pop();
    const all = most.length ? `${most.join(', ')} and ${last}` : last;
    return `The query ${quoted(queries[query])} attends most to ${all}.`;
  }

  // Returns the tokens of a text: one row if queries and keys are the same tokens, otherwise two.
  function tokenView(map, choose) {
    const asks = tokenRow('queries', map.queries, 'listbox');
    const move = roving(asks.spans, choose);
    const alone = same(map.queries, map.keys);
    const seen = alone ? asks : tokenRow('keys', map.keys, 'list');
    const named = (name, row) => element('div', {class: 'named'}, element('b', {}, name), row);
    const rows = alone ? [named('Query, Key', asks.row)]
                       : [named('Query', asks.row), named('Key', seen.row)];
    const hint = 'Point at a token, or move along the tokens with the arrow keys: it is the '
               + 'query. The stronger the color of a key, the more the query attends to it; the '
               + 'largest weight has the full color.';
    const show = (query, weights) => {
      asks.spans.forEach((span, i) => span.setAttribute('aria-selected', i === query));
      move(query);
      weigh(seen.spans, map.keys, weights);
    };
    return {root: element('div', {class: 'tokens'}, element('p', {class: 'faint'}, hint), ...rows),
            show, draw() {}};
  }

  const clamp = (i, count) => Math.min(count - 1, Math.max(0, i));

  // The steps down and right of the arrow keys.
  const KEYS = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};

  // Returns a canvas whose cells are pointed at: pointed(x, y) gets a place in it in CSS pixels,
  // moved(down, right) the step of an arrow key.
  function cellCanvas(attributes, pointed, moved) {
    const point = ({offsetX, offsetY}) => pointed(offsetX, offsetY);
    return element('canvas', {
      ...attributes, tabindex: 0, role: 'application', onpointermove: point, onpointerdown: point,
      onkeydown: (event) => {
        if (!(event.key in KEYS)) return;
        event.preventDefault();
        moved(...KEYS[event.key]);
      }});
  }

  // Shows an image with the attention between its patches, and buttons for the other tokens.
  class ImageView {
    constructor(example, map, choose) {
      const {patch_rows: rows, patch_columns: columns, extra_tokens: extra = 0} = example;
      const {shape: [, height, width], values: pixels} = arrayOf(example.image);
      Object.assign(this, {rows, columns, extra, image: picture(pixels, height, width), query: 0,
                           weights: new Float32Array(map.keys.length)});
      const patch = (row, column) =>
        choose(extra + clamp(row, rows) * columns + clamp(column, columns));
      this.canvas = cellCanvas(
        {class: 'patches', style: `aspect-ratio: ${width} / ${height}`,
         'aria-label': `image of ${rows} × ${columns} patches; arrow keys choose the query`},
        (x, y) => patch(Math.floor(y / this.canvas.clientHeight * rows),
                        Math.floor(x / this.canvas.clientWidth * columns)),
        (down, right) => {
          const at = this.query - extra;  // negative: a token outside of the grid
          if (at < 0) patch(0, 0);
          else patch(Math.floor(at / columns) + down, at % columns + right);
        });
      this.buttons = map.queries.slice(0, extra).map((text, i) =>
        element('button', {type: 'button', onclick: () => choose(i)}, token(text)));
      this.root = element('div', {class: 'seen'}, this.canvas,
        element('div', {class: 'controls'}, ...this.buttons),
        element('p', {class: 'faint'}, 'Point at a patch of the image, or choose it with the arrow '
          + 'keys: it is the query. The more it attends to a patch, the more orange the patch is.'));
    }

    draw() {
      const {rows, columns, extra, weights} = this, patch = this.query - extra;
      const {context, width: wide, height: high} = contextOf(this.canvas);
      const values = weights.subarray(extra), greatest = Math.max(...values);
      const overlay = element('canvas'), cell = [wide / columns, high / rows];
      context.imageSmoothingEnabled = false;
      context.drawImage(this.image, 0, 0, wide, high);
      paintWeights(overlay, {rows, columns, values, greatest}, color('--series-1'), 1);
      context.globalAlpha = 0.75;
      context.drawImage(overlay, 0, 0, wide, high);
      context.globalAlpha = 1;
      if (patch < 0) return;
      for (const [tint, line] of [['--panel', 5], ['--accent', 3]]) {
        context.strokeStyle = color(tint);
        context.lineWidth = line;
        context.strokeRect(patch % columns * cell[0] + 1.5,
                           Math.floor(patch / columns) * cell[1] + 1.5, cell[0] - 3, cell[1] - 3);
      }
    }

    show(query, weights) {
      Object.assign(this, {query, weights});
      this.buttons.forEach((button, i) => {
        button.setAttribute('aria-pressed', i === query);
        button.title = `attention: ${percent(weights[i])}`;
        button.firstChild.dataset.percent = percent(weights[i]);
      });
      this.draw();
    }
  }

  const LARGEST_CELL = 34, LEAST_LABELED = 11, MAP_HEIGHT = 440, MARGIN = 70, TITLE = 20;

  function shortened(context, text, room) {
    const letters = Array.from(visible(text).slice(0, 40)), all = letters.length;
    const shown = () => letters.join('') + (letters.length < all ? '…' : '');
    while (letters.length && context.measureText(shown()).width > room) letters.pop();
    return shown();
  }

  // The whole map of a head: a row for each query, a column for each key.
  class HeatMap {
    constructor(choose) {
      Object.assign(this, {choose, query: 0, key: 0, buffer: element('canvas')});
      this.canvas = cellCanvas(
        {class: 'map',
         'aria-label': 'map of the weights; a row for each query, a column for each key'},
        (x, y) => this.point(Math.floor((y - this.top) / this.cell.height),
                             Math.floor((x - this.left) / this.cell.width)),
        (down, right) => this.point(this.query + down, this.key + right));
      this.readout = element('p', {class: 'readout', role: 'status'});
      this.scale = element('div', {class: 'faint'});
      this.root = element('figure', {class: 'whole'}, element('b', {}, 'Attention weights'),
                          this.canvas, this.readout, this.scale);
    }

    take(map, matrix) {
      Object.assign(this, {map, matrix, query: clamp(this.query, matrix.rows)});
      this.scale.replaceChildren(scaleOf(matrix.greatest),
                                 'A row for each query, a column for each key. Uniform attention: '
                                 + `${percent(1 / matrix.columns)}.`);
      this.draw();
    }

    show(query) {
      [this.query, this.key = 0] = [query, ...largest(rowOf(this.matrix, query), 1)];
      this.tell();
    }

    point(row, column) {
      this.choose(clamp(row, this.matrix.rows));
      this.key = clamp(column, this.matrix.columns);
      this.tell();
    }

    tell() {
      const weight = this.matrix.values[this.query * this.matrix.columns + this.key];
      this.readout.textContent = `${quoted(this.map.queries[this.query])} attends to `
                               + `${quoted(this.map.keys[this.key])}: ${percent(weight)}`;
      this.drawMap();
    }

    // Chooses the places of the cells. An axis has labels if these fit, and always a title.
    place() {
      const {map: {queries, keys}, matrix: {rows, columns}} = this;
      const whole = (size) => size < 3 ? size : Math.floor(size);
      const margin = (size, texts) => TITLE + (size < LEAST_LABELED ? 0 : Math.min(MARGIN,
        12 + 7 * texts.reduce((most, text) => Math.max(most, visible(text).length), 0)));
      const height = whole(Math.min(LARGEST_CELL, MAP_HEIGHT / rows));
      this.left = margin(height, queries);
      const room = this.canvas.clientWidth - this.left;
      this.cell = {width: whole(Math.min(LARGEST_CELL, room / columns)), height};
      this.top = margin(this.cell.width, keys);
      const high = Math.max(rows * height, 2 * TITLE);  // as high as the title "Query"
      this.canvas.style.height = `${Math.ceil(this.top + high + 1)}px`;
    }

    draw() {
      paintWeights(this.buffer, this.matrix, color('--accent'));
      this.drawMap();
    }

    drawMap() {
      this.place();
      const {left, top, cell, matrix} = this, down = top + this.query * cell.height;
      const wide = matrix.columns * cell.width, high = matrix.rows * cell.height;
      const {context} = contextOf(this.canvas);
      context.imageSmoothingEnabled = cell.width < 1 || cell.height < 1;
      context.drawImage(this.buffer, left, top, wide, high);
      context.strokeStyle = color('--line');
      context.strokeRect(left + 0.5, top + 0.5, wide, high);
      context.strokeStyle = color('--faint');
      context.strokeRect(left + 0.5, down + 0.5, wide, cell.height);
      context.lineWidth = 2;
      context.strokeStyle = color('--ink');
      context.strokeRect(left + this.key * cell.width, down, cell.width, cell.height);
      this.drawLabels(context);
    }

    drawLabels(context) {
      const {map, left, top, cell} = this;
      const upright = (text, x, y) => {
        context.save();
        context.translate(x, y);
        context.rotate(-Math.PI / 2);
        context.fillText(text, 0, 0);
        context.restore();
      };
      context.fillStyle = color('--faint');
      context.font = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
      context.textBaseline = 'middle';
      context.textAlign = 'right';
      if (left > TITLE) {
        map.queries.forEach((text, i) => context.fillText(
          shortened(context, text, left - TITLE - 6), left - 5, top + (i + 0.5) * cell.height));
      }
      context.textAlign = 'left';
      if (top > TITLE) {
        map.keys.forEach((text, i) => upright(
          shortened(context, text, top - TITLE - 6), left + (i + 0.5) * cell.width, top - 5));
      }
      context.fillStyle = color('--ink');
      context.font = '600 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
      context.fillText('Key', left, TITLE / 2);
      context.textAlign = 'right';
      upright('Query', TITLE / 2, top);
    }
  }

  const nameOf = (head) => head === 'mean' ? 'mean of all heads' : `head ${head}`;

  // Returns a button for each head of a layer, with the head's map as a small picture.
  function headStrip(weights, choose) {
    const heads = ['mean', ...Array.from({length: weights.shape[0]}).keys()];
    const made = heads.map((head) => {
      const canvas = element('canvas', {class: 'pixels'});
      const button = element('button', {type: 'button', onclick: () => choose(head),
                                        'aria-label': nameOf(head)},
                             canvas, element('span', {}, head === 'mean' ? 'mean' : nameOf(head)));
      return {head, canvas, button};
    });
    const show = (chosen) => {
      for (const {head, button} of made) button.setAttribute('aria-pressed', head === chosen);
    };
    const draw = () => {
      const tint = color('--accent');
      for (const {head, canvas} of made) paintWeights(canvas, headOf(weights, head), tint);
    };
    const root = element('div', {class: 'heads', role: 'group', 'aria-label': 'heads'},
                         ...made.map(({button}) => button));
    draw();
    return {root, show, draw};
  }

  function predictionLine([text, chance], actual) {
    const right = text === actual;
    return element('li', {class: right ? 'actual' : ''},
                   element('span', {class: 'token', title: visible(text)}, visible(text)),
                   element('span', {class: 'track'},
                           element('span', {class: 'bar', style: `width: ${100 * chance}%`})),
                   element('span', {class: 'chance'}, percent(chance)),
                   element('span', {class: 'good'}, right ? '✓' : ''));
  }

  // Returns the next-token probabilities after a token. If the queries are the same tokens, this is
  // the token of the query; otherwise it is chosen in a separate row.
  function expectations({predictions, predicted_after: after, actual, image}) {
    const heading = element('b'), list = element('ol'), target = element('p', {class: 'faint'});
    const ofImage = image && after.length === 1;
    const own = tokenRow('tokens to predict after', after, 'listbox');
    const show = (position) => {
      const next = actual?.[position], expected = predictions[position] ?? [];
      own.spans.forEach((span, i) => span.setAttribute('aria-selected', i === position));
      move(position);
      heading.textContent = ofImage ? 'Class probabilities'
        : `Next-token probabilities after ${quoted(after[position])}`;
      list.replaceChildren(...expected.map((one) => predictionLine(one, next)));
      target.textContent = next === undefined ? '' : `Target (✓): ${quoted(next)}`
        + (expected.some(([text]) => text === next) ? '.' : ', which is not among these.');
    };
    const move = roving(own.spans, show);
    const root = element('div', {class: 'expected'}, heading, own.row, list, target);
    show(after.length - 1);
    return {root, follow(map, query) {
      const together = same(map.queries, after);
      own.row.hidden = together || after.length < 2;
      if (together) show(query);
    }};
  }

  const isOfImage = (example, map) => example.image
    && [map.queries, map.keys].every((texts) => texts.length
         === (example.extra_tokens ?? 0) + example.patch_rows * example.patch_columns);

  parts.attention = (host, data) => {
    const state = {example: 0, layer: 0, head: 'mean', query: 0};
    const top = element('div', {class: 'controls'}), strip = element('div');
    const body = element('div', {class: 'body'}), told = element('p', {role: 'status'});
    const map = new HeatMap((query) => choose(query));
    let view, heads, expected, current, weights, matrix;

    const tell = () => {
      for (const name of Object.keys(state)) host.dataset[name] = state[name];
    };
    const choose = (query) => {
      const row = rowOf(matrix, query);
      state.query = query;
      told.textContent = summary(current, query, row);
      view.show(query, row);
      map.show(query);
      expected?.follow(current, query);
      tell();
    };
    const chooseHead = (head) => {
      state.head = head;
      matrix = headOf(weights, head);
      heads.show(head);
      map.take(current, matrix);
      choose(state.query);
    };
    const chooseLayer = (layer) => {
      const example = data.examples[state.example];
      state.layer = layer;
      current = example.maps[layer];
      weights = arrayOf(current.weights);
      const ofImage = isOfImage(example, current);
      view = ofImage ? new ImageView(example, current, choose) : tokenView(current, choose);
      heads = headStrip(weights, chooseHead);
      strip.replaceChildren(heads.root);
      body.classList.toggle('of-image', Boolean(ofImage));
      body.replaceChildren(view.root, told, map.root, ...(expected ? [expected.root] : []));
      state.query = Math.min(state.query, current.queries.length - 1);
      chooseHead(state.head < weights.shape[0] ? state.head : 'mean');
    };
    const chooseExample = (index) => {
      const example = data.examples[index], last = example.maps.length - 1;
      state.example = index;
      state.query = example.image ? 0 : Infinity;
      expected = example.predictions && expectations(example);
      top.replaceChildren(
        chooser('Example', data.examples.map(({title}) => visible(title)), chooseExample, index),
        chooser('Layer', example.maps.map(({path}) => visible(path)), chooseLayer, last));
      chooseLayer(last);
    };

    host.classList.add('attention');
    host.append(top, strip, body);
    chooseExample(0);
    drawn(host, () => {
      heads.draw();
      view.draw();
      map.draw();
    });
  };
}
