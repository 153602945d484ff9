'use strict';

// Shows the latent space of an autoencoder: a cloud of the codes of images, a point z that the user
// moves, and the picture that the decoder computes from z.
{
  const bins = 128;         // number of bins by which points are sorted by depth
  const eye = 4;            // distance of the viewer from the center of a 3-D cloud, in radii
  const picked = 12;        // maximum distance of the pointer from a point, in CSS pixels
  const followSize = 56;    // size of the picture beside the marker, in CSS pixels
  const steps = 9;          // number of interpolated pictures between two images
  const pairsAtFirst = 24;  // number of pairs before "Show all"

  const ways = new Map([['ArrowLeft', [-1, 0]], ['ArrowRight', [1, 0]], ['ArrowUp', [0, -1]],
                        ['ArrowDown', [0, 1]]]);

  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
  const spelt = (values) => Array.from(values, (value) => Number(value.toPrecision(9))).join(',');

  // ---- Coordinates of the sliders: z itself if Z <= 3, otherwise principal components.

  // Returns the coordinate system. Coordinate k of z is axes[k] · (z - mean); the axes are
  // orthonormal rows.
  function coordinateSystem({latent, basis, codes}) {
    const own = latent <= 3, Z = latent;
    const mean = own ? new Float32Array(Z) : arrayOf(basis.mean).values;
    const axes = own ? Float32Array.from({length: Z * Z}, (_, i) => (i % (Z + 1) === 0 ? 1 : 0))
                     : arrayOf(basis.axes).values;
    const count = axes.length / Z, values = arrayOf(codes).values;
    const coordinate = (z, k, start = 0) => {
      let sum = 0;
      for (let d = 0; d < Z; ++d) sum += axes[k * Z + d] * (z[start + d] - mean[d]);
      return sum;
    };
    const system = {
      count, own, coordinate,
      names: Array.from({length: count}, (_, k) => (own ? `z${k + 1}` : `PC${k + 1}`)),
      shift: (z, k, value) => {
        const step = value - coordinate(z, k);
        for (let d = 0; d < Z; ++d) z[d] += step * axes[k * Z + d];
      },
    };
    system.ranges = rangesOf(system, values, Z);
    return system;
  }

  // Returns the range of each slider: 1.1 times that of the codes. For z itself all ranges have
  // equal width, so that a dimension that the codes hardly use can be explored as well.
  function rangesOf({count, own, coordinate}, codes, Z) {
    const ranges = Array.from({length: count}, () => ({min: Infinity, max: -Infinity}));
    for (let start = 0; start < codes.length; start += Z)
      ranges.forEach((range, k) => {
        const value = coordinate(codes, k, start);
        if (value < range.min) range.min = value;
        if (value > range.max) range.max = value;
      });
    const halves = ranges.map(({min, max}) => (max > min ? 0.55 * (max - min) : 1));
    return ranges.map(({min, max}, k) => {
      const middle = max >= min ? (min + max) / 2 : 0, half = own ? Math.max(...halves) : halves[k];
      return {min: middle - half, max: middle + half};
    });
  }

  // ---- Positions of codes on the screen.

  // Returns the codes as points (N, 3) around a center. A single coordinate becomes a strip, in
  // which each class has its own lane, so that points do not cover each other.
  function cloudOf(system, {latent, classes, classCount, codes}) {
    const dimensions = system.own ? latent : 2, N = classes.length;
    const center = [0, 1, 2].map((k) => (k < dimensions
      ? (system.ranges[k].min + system.ranges[k].max) / 2 : 0));
    const points = new Float32Array(3 * N), golden = 0.618034;
    for (let n = 0; n < N; ++n) {
      for (let k = 0; k < dimensions; ++k)
        points[3 * n + k] = system.coordinate(codes, k, n * latent) - center[k];
      if (dimensions === 1)
        points[3 * n + 1] = 1 - 2 * (classes[n] + 0.1 + 0.8 * ((n * golden) % 1)) / classCount;
    }
    const half = (k) => (system.ranges[k].max - system.ranges[k].min) / 2;
    if (dimensions === 1) return {dimensions, center, points, extent: [half(0), 1]};
    if (dimensions === 2) return {dimensions, center, points, extent: [half(0), half(1)]};
    return {dimensions, center, points, extent: Array(2).fill(radiusOf(points))};
  }

  // Returns the radius of a sphere around at least 99 % of the points (N, 3).
  function radiusOf(points) {
    const squares = new Float32Array(points.length / 3);
    for (let n = 0; n < squares.length; ++n)
      squares[n] = points[3 * n] ** 2 + points[3 * n + 1] ** 2 + points[3 * n + 2] ** 2;
    squares.sort();
    const most = squares[Math.floor(0.99 * squares.length)], all = squares[squares.length - 1];
    return Math.min(Math.sqrt(all), 1.08 * Math.sqrt(most)) || 1;
  }

  // Rotates and projects points: a 3-D cloud in perspective, a flat one without.
  class View {
    constructor({dimensions, extent}) {
      this.turns = dimensions === 3;
      this.strip = dimensions === 1;
      this.extent = extent;
      this.turn(this.turns ? -0.6 : 0, this.turns ? 0.35 : 0);
    }

    // Rotates about the vertical axis by `yaw`, then about the horizontal axis by `pitch`, in
    // radians.
    turn(yaw, pitch) {
      this.yaw = yaw;
      this.pitch = clamp(pitch, -Math.PI / 2, Math.PI / 2);
      const [c, s] = [Math.cos(yaw), Math.sin(yaw)];
      const [d, t] = [Math.cos(this.pitch), Math.sin(this.pitch)];
      this.rows = [[c, 0, s], [s * t, d, -c * t], [-s * d, t, c * d]];
    }

    resize(width, height) {
      this.margin = this.turns ? {left: 8, right: 8, top: 8, bottom: 8}
                               : {left: this.strip ? 12 : 44, right: 12, top: 10, bottom: 42};
      const {left, right, top, bottom} = this.margin;
      this.middle = [(left + width - right) / 2, (top + height - bottom) / 2];
      const scaleX = (width - left - right) / 2 / this.extent[0];
      const scaleY = (height - top - bottom) / 2 / this.extent[1];
      this.scale = this.strip ? [scaleX, scaleY] : Array(2).fill(Math.min(scaleX, scaleY));
    }

    near(depth) { return this.turns ? eye / (eye - clamp(depth / this.extent[0], -2, 2)) : 1; }

    // Returns [x, y, depth] of a point, x and y in CSS pixels.
    project([a, b, c]) {
      const [x, y, depth] = this.rows.map((row) => row[0] * a + row[1] * b + row[2] * c);
      const near = this.near(depth);
      return [this.middle[0] + x * this.scale[0] * near, this.middle[1] - y * this.scale[1] * near,
              depth];
    }

    // Returns the point of this depth at a place on the screen.
    under(x, y, depth) {
      const near = this.near(depth);
      const seen = [(x - this.middle[0]) / this.scale[0] / near,
                    (this.middle[1] - y) / this.scale[1] / near, depth];
      return [0, 1, 2].map((i) => this.rows.reduce((sum, row, k) => sum + row[i] * seen[k], 0));
    }
  }

  // ---- Drawing the cloud.

  const circle = (context, x, y, radius) => {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
  };

  // Returns the places of all points on the screen: x, y (N), the bin of the depth, and an order
  // from far to near.
  function placesOf(N) {
    const places = {x: new Float32Array(N), y: new Float32Array(N), bin: new Uint8Array(N),
                    order: new Uint32Array(N)};
    const starts = new Uint32Array(bins + 1);
    places.update = (view, points) => {
      const [r, s, t] = view.rows, [mx, my] = view.middle, [sx, sy] = view.scale;
      const radius = view.extent[0];
      starts.fill(0);
      for (let n = 0; n < N; ++n) {
        const a = points[3 * n], b = points[3 * n + 1], c = points[3 * n + 2];
        const depth = t[0] * a + t[1] * b + t[2] * c, near = view.near(depth);
        places.x[n] = mx + (r[0] * a + r[1] * b + r[2] * c) * sx * near;
        places.y[n] = my - (s[0] * a + s[1] * b + s[2] * c) * sy * near;
        places.bin[n] = view.turns ? clamp((depth / radius + 1) / 2 * bins, 0, bins - 1) : 0;
        ++starts[places.bin[n] + 1];
      }
      for (let i = 0; i < bins; ++i) starts[i + 1] += starts[i];
      for (let n = 0; n < N; ++n) places.order[starts[places.bin[n]]++] = n;
    };
    return places;
  }

  // Draws the points. A nearer point is larger and less faint; in a flat cloud all look alike.
  function drawPoints(context, view, places, classes, hidden, colors) {
    for (const n of places.order) {
      if (hidden.has(classes[n])) continue;
      const near = view.turns ? places.bin[n] / (bins - 1) : 0.6;
      context.globalAlpha = 0.35 + 0.6 * near;
      context.fillStyle = colors[classes[n]];
      circle(context, places.x[n], places.y[n], 1.7 + 1.7 * near);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  const fontOf = (host) => `12px ${getComputedStyle(host).fontFamily}`;

  // Draws the three axes through the center of a 3-D cloud.
  function drawAxes(context, view) {
    const half = 0.9 * view.extent[0];
    context.strokeStyle = color('--faint');
    for (const axis of [[half, 0, 0], [0, half, 0], [0, 0, half]]) {
      const [from, to] = [view.project(axis.map((side) => -side)), view.project(axis)];
      context.beginPath();
      context.moveTo(from[0], from[1]);
      context.lineTo(to[0], to[1]);
      context.stroke();
    }
  }

  function nameAxes(context, view, names) {
    context.fillStyle = color('--ink');
    context.strokeStyle = color('--panel');
    context.lineWidth = 4;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    names.forEach((name, k) => {
      const [x, y] = view.project([0, 1, 2].map((i) => (i === k ? 0.96 * view.extent[0] : 0)));
      context.strokeText(name, x, y);
      context.fillText(name, x, y);
    });
  }

  // Returns round numbers from min to max, about `wanted` of them.
  function ticksBetween(min, max, wanted) {
    const rough = (max - min) / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    if (!Number.isFinite(step) || step <= 0) return [];
    const first = Math.ceil(min / step), last = Math.floor(max / step);
    return Array.from({length: last - first + 1}, (_, i) => (first + i) * step);
  }

  // Draws the scales below and beside a flat cloud.
  function drawScales(context, view, system, center, {width, height}) {
    const {left, right, top, bottom} = view.margin;
    const base = height - bottom;
    context.strokeStyle = color('--line');
    context.fillStyle = color('--faint');
    context.strokeRect(left, top, width - left - right, base - top);
    const along = (k, pixels) => {
      const half = pixels / 2 / view.scale[k];
      return ticksBetween(center[k] - half, center[k] + half, pixels / 45);
    };
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (const value of along(0, width - left - right))
      context.fillText(figure(value), view.project([value - center[0], 0, 0])[0], base + 5);
    context.fillText(system.names[0], (left + width - right) / 2, base + 22);
    if (view.strip) return;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const value of along(1, base - top))
      context.fillText(figure(value), left - 6, view.project([0, value - center[1], 0])[1]);
    context.save();
    context.translate(10, (top + base) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = 'center';
    context.fillText(system.names[1], 0, 0);
    context.restore();
  }

  // ---- Small parts of the page.

  // Makes the buttons of a group one tab stop, in which the arrow keys move.
  function roving(group) {
    const buttons = () => Array.from(group.querySelectorAll('button'));
    const stop = (chosen) => buttons().forEach((b) => b.setAttribute('tabindex',
                                                                     b === chosen ? 0 : -1));
    group.addEventListener('focusin', (event) => stop(event.target.closest('button')));
    group.addEventListener('keydown', (event) => {
      const all = buttons(), at = all.indexOf(document.activeElement);
      const to = {ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1,
                  Home: 0, End: all.length - 1}[event.key];
      if (to === undefined || at < 0) return;
      event.preventDefault();
      all[clamp(to, 0, all.length - 1)].focus();
    });
    stop(buttons()[0]);
  }

  function legendOf(names, counts, toggled) {
    const entries = names.map((name, c) => {
      const dot = element('span', {class: 'dot', style: `background: var(--series-${c % 10})`});
      const button = element('button', {
        'type': 'button', 'aria-pressed': 'true', 'title': name,
        'aria-label': `${name}, ${counts[c]} images`,
        'onclick': () => {
          const shown = button.getAttribute('aria-pressed') !== 'true';
          button.setAttribute('aria-pressed', shown);
          toggled(c, shown);
        },
      }, dot, element('span', {class: 'name'}, name));
      return button;
    });
    return element('div', {'class': 'legend', 'role': 'group', 'aria-label': 'Classes shown'},
                   ...entries);
  }

  // Returns the median of 20 times of a call of decode(z), in milliseconds. Each time is a mean
  // over 2 ms, because browsers round their clocks.
  function millisecondsOf(decode, z) {
    const times = Array.from({length: 20}, () => {
      const start = performance.now();
      let count = 0, passed = 0;
      for (; passed < 2; ++count, passed = performance.now() - start) decode(z);
      return passed / count;
    });
    return times.sort((a, b) => a - b)[10];
  }

  const hundredths = (value) => value.toFixed(2).replace(/^-(0\.00)$/, '$1');
  const brief = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);
  const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

  // ---- The part of the page.

  class Latent {
    constructor(host, data) {
      this.host = host;
      this.data = data;
      this.classes = arrayOf(data.classes).values;
      this.codes = arrayOf(data.codes).values;
      this.pictures = arrayOf(data.pictures);
      this.reconstructed = arrayOf(data.reconstructed).values;
      this.N = this.classes.length;
      this.M = this.pictures.shape[0];
      const classCount = this.classes.reduce((most, c) => Math.max(most, c + 1),
                                             data.class_names.length);
      this.classNames = Array.from({length: classCount}, (_, c) => data.class_names[c]
                                                                || `class ${c}`);
      this.system = coordinateSystem(data);
      this.cloud = cloudOf(this.system, {latent: data.latent, classes: this.classes, classCount,
                                         codes: this.codes});
      this.view = new View(this.cloud);
      this.places = placesOf(this.N);
      this.hidden = new Set();
      this.hovered = -1;
      this.ends = [-1, -1];  // the images between which pictures are drawn
      this.next = 0;         // the end that the next click chooses
      this.decode = data.decoder ? decoderOf(data.decoder) : null;
      this.z = new Float32Array(data.latent);
      this.due = 0;
      this.stale = {points: true, picture: true};
    }

    build() {
      const {host, data} = this;
      host.classList.add('latent');
      host.append(this.caption(), this.legend(), this.stage());
      if (this.M > 0) host.append(...this.gallery());
      if (this.M > 0 && this.decode) host.append(...this.between());
      this.listen();
      this.center();
      if (this.decode) this.measure();
      if (this.M > 0 && this.decode) this.chooseAtFirst();
      drawn(host, () => this.redraw({points: true, picture: true}));
      host.decode = this.decode ? (z) => this.decode(Float32Array.from(z)).slice() : null;
    }

    caption() {
      const {latent} = this.data, {dimensions} = this.cloud;
      const where = {
        1: 'A point is at its code along the strip; the lanes only separate the classes.',
        2: 'A point is at its code.',
        3: 'A point is at its code; drag the background to turn the cloud.',
      };
      const plane = `Of the ${latent} numbers the plane shows the two directions (principal `
        + 'components, PC) along which the codes vary most.';
      const move = this.decode
        ? ' Drag the ringed marker z, or click a point: the decoder draws the image of this code.'
        : ' The ring marks the image you choose.';
      return element('p', {},
        `The encoder maps each image to a latent code of ${latent} `
        + `number${latent === 1 ? '' : 's'}. These are the codes of ${this.N} images that the model `
        + `was not trained on, colored by class. ${latent > 3 ? plane : where[dimensions]}${move}`);
    }

    legend() {
      const counts = this.classNames.map(() => 0);
      for (const c of this.classes) ++counts[c];
      return legendOf(this.classNames, counts, (c, shown) => {
        if (shown) this.hidden.delete(c);
        else this.hidden.add(c);
        this.hover(-1);
        this.redraw({points: true});
      });
    }

    // Returns the cloud, beside it the picture at z, and below both the sliders.
    stage() {
      const flat = !this.view.turns;
      const keys = [!flat && 'Arrow keys turn the cloud.',
                    this.decode && `${flat ? 'A' : 'Shift and a'}rrow keys move z.`];
      this.pointsCanvas = element('canvas', {'class': 'points', 'aria-hidden': 'true'});
      this.canvas = element('canvas', {
        'class': 'front', 'tabindex': 0, 'role': 'application',
        'aria-label': [`Cloud of ${this.N} codes.`, ...keys.filter(Boolean)].join(' '),
      });
      this.hint = element('div', {class: 'hint', hidden: true});
      const cloud = element('div', {class: 'cloud'}, this.pointsCanvas, this.canvas, this.hint);
      cloud.classList.toggle('flat', flat);
      cloud.classList.toggle('strip', this.view.strip);
      const tools = element('div', {class: 'tools'},
        element('button', {type: 'button', onclick: () => this.center()}, 'Center'),
        element('button', {type: 'button', onclick: () => this.random()}, 'Random image'));
      if (!this.decode) {
        const why = element('p', {class: 'faint'}, sentence(this.data.why_no_decoder
          || 'There is no decoder to draw pictures with.'));
        return element('div', {class: 'stage'}, cloud, element('div', {class: 'side'}, why, tools));
      }
      const {height, width} = this.data;
      this.image = element('canvas', {
        'class': 'pixels', height, width, 'role': 'img',
        'aria-label': 'The picture that the decoder draws at z',
        'style': `aspect-ratio: ${width} / ${height}`,
      });
      this.pace = element('p', {class: 'faint pace'});
      const shown = element('figure', {}, this.image, element('figcaption', {}, 'Decoded at z'));
      return element('div', {class: 'stage'}, cloud,
                     element('div', {class: 'side'}, shown, element('div', {}, tools, this.pace)),
                     this.controls());
    }

    controls() {
      this.sliders = this.system.ranges.map(({min, max}, k) => {
        const made = slider(this.system.names[k], {min, max, step: (max - min) / 200, value: 0},
                            (value) => {
                              this.system.shift(this.z, k, value);
                              this.moved();
                            });
        made.shown = element('output', {});
        made.append(made.shown);
        return made;
      });
      return element('div', {class: 'sliders'}, ...this.sliders);
    }

    // Returns pairs of an image and its reconstruction, each as a button.
    gallery() {
      const {channels, height, width} = this.data, size = channels * height * width;
      const part = (values, n) => picture(values.subarray(n * size, (n + 1) * size), height, width);
      this.pairs = Array.from({length: this.M}, (_, n) => element('button', {
        'type': 'button', 'class': 'pair', 'aria-pressed': 'false', 'hidden': n >= pairsAtFirst,
        'title': this.classNames[this.classes[n]],
        'aria-label': `Image ${n + 1}, ${this.classNames[this.classes[n]]}, and its reconstruction`,
        'onclick': () => this.choose(n),
      }, part(this.pictures.values, n), part(this.reconstructed, n)));
      const grid = element('div', {'class': 'pairs', 'role': 'group',
                                   'aria-label': 'Images and their reconstructions'},
                           ...this.pairs.slice(0, pairsAtFirst));
      roving(grid);
      const told = 'In each pair: the image on the left, its reconstruction on the right. ';
      const use = this.decode
        ? 'Choose a pair to move z to its code; the first you choose becomes end A, the second end '
          + 'B of the row of pictures beneath, and so on in turn.'
        : 'Choose a pair to see where its code lies.';
      const made = [element('h4', {}, 'Reconstruction'),
                    element('p', {class: 'faint'}, told + use), grid];
      if (this.M > pairsAtFirst) made.push(this.moreButton(grid));
      return made;
    }

    moreButton(grid) {
      const rest = this.pairs.slice(pairsAtFirst);
      const button = element('button', {type: 'button', onclick: () => {
        rest.forEach((pair) => { pair.hidden = false; });
        grid.append(...rest);
        rest[0].focus();
        button.remove();
      }}, `Show all ${this.M} pairs`);
      rest.forEach((pair) => pair.setAttribute('tabindex', -1));
      return button;
    }

    // Returns the row of pictures between ends A and B.
    between() {
      const {height, width} = this.data;
      this.stepped = Array.from({length: steps}, () => element('canvas',
                                                               {class: 'pixels', height, width}));
      const row = element('div', {'class': 'row', 'role': 'group',
                                  'aria-label': 'Pictures between A and B'},
        ...this.stepped.map((canvas, i) => element('button', {
          'type': 'button', 'onclick': () => this.along(i / (steps - 1)),
          'aria-label': `Picture ${i + 1} of ${steps} from A to B`,
        }, canvas)));
      roving(row);
      this.line = slider('From A to B', {min: 0, max: 1, step: 0.01, value: 0},
                         (t) => this.along(t));
      this.line.classList.add('line');
      this.endsText = element('p', {class: 'faint'});
      return [element('h4', {}, 'Interpolation'), this.endsText, row, this.line];
    }

    chooseAtFirst() {
      const other = this.pairs.findIndex((_, n) => this.classes[n] !== this.classes[0]);
      this.ends = [0, other > 0 ? other : this.M - 1];
      this.showEnds();
    }

    // ---- Moving z.

    codeOf(n) { return this.codes.subarray(n * this.data.latent, (n + 1) * this.data.latent); }

    moveTo(z) {
      this.z.set(z);
      this.moved();
    }

    moved() {
      this.host.dataset.z = spelt(this.z);
      this.redraw({picture: true});
    }

    center() { this.moveTo(arrayOf(this.data.basis.mean).values); }

    // Moves to the next image in a pseudorandom order, which has each image once unless 7919
    // divides N.
    random() {
      this.drawnAt = ((this.drawnAt || 0) + 7919) % this.N;
      this.moveTo(this.codeOf(this.drawnAt));
    }

    choose(n) {
      this.ends[this.next] = n;
      this.next = 1 - this.next;
      if (this.decode) {
        this.showEnds();
        this.line.slider.value = this.next === 1 ? 0 : 1;
      } else {
        this.pairs.forEach((pair, i) => pair.setAttribute('aria-pressed', i === n));
      }
      this.moveTo(this.codeOf(n));
    }

    // Moves z to the fraction t of the way from A to B.
    along(t) {
      this.line.slider.value = t;
      this.moveTo(this.mixed(t));
    }

    mixed(t) {
      const [from, to] = this.ends.map((n) => this.codeOf(n));
      return from.map((a, d) => a * (1 - t) + to[d] * t);
    }

    showEnds() {
      const [A, B] = this.ends, {height, width} = this.data;
      this.pairs.forEach((pair, n) => {
        pair.setAttribute('aria-pressed', n === A || n === B);
        const end = [n === A && 'A', n === B && 'B'].filter(Boolean).join(' ');
        if (end) pair.dataset.end = end;
        else delete pair.dataset.end;
      });
      const name = (n) => `image ${n + 1} (${brief(this.classNames[this.classes[n]])})`;
      this.endsText.textContent = `A is ${name(A)}, B is ${name(B)}. The pictures are decoded in `
        + `${steps} equal steps from the code of A to that of B.`;
      this.stepped.forEach((canvas, i) => paint(canvas, this.decode(this.mixed(i / (steps - 1))),
                                                height, width));
      this.redraw({});
    }

    measure() {
      const time = millisecondsOf(this.decode, this.z);
      this.host.dataset.decodeMs = time.toFixed(3);
      this.pace.textContent = `One picture takes ${Number(time.toPrecision(2))} ms here.`;
    }

    // ---- Drawing, at most once per frame.

    redraw({points = false, picture: image = false}) {
      this.stale = {points: points || this.stale.points, picture: image || this.stale.picture};
      if (!this.due) this.due = requestAnimationFrame(() => this.frame());
    }

    frame() {
      this.due = 0;
      if (this.stale.picture) this.showZ();
      if (this.stale.points) this.drawCloud();
      this.drawFront();
      this.stale = {points: false, picture: false};
    }

    showZ() {
      if (!this.decode) return;
      paint(this.image, this.decode(this.z), this.data.height, this.data.width);
      this.sliders.forEach((made, k) => {
        const value = this.system.coordinate(this.z, k);
        made.slider.value = value;
        made.shown.textContent = hundredths(value);
      });
    }

    drawCloud() {
      const {view, cloud, system} = this;
      const {context, width, height} = contextOf(this.pointsCanvas);
      view.resize(width, height);
      context.font = fontOf(this.host);
      if (view.turns) drawAxes(context, view);
      else drawScales(context, view, system, cloud.center, {width, height});
      this.places.update(view, cloud.points);
      drawPoints(context, view, this.places, this.classes, this.hidden,
                 this.classNames.map((_, c) => seriesColor(c)));
      if (view.turns) nameAxes(context, view, system.names);
    }

    // Draws what moves without the points: the line from A to B, the ring of the point under the
    // pointer, and the marker.
    drawFront() {
      const {context, width, height} = contextOf(this.canvas);
      context.font = `bold ${fontOf(this.host)}`;
      if (this.decode && this.ends[0] >= 0) this.drawLine(context);
      if (this.hovered >= 0) {
        context.strokeStyle = color('--ink');
        context.lineWidth = 2;
        circle(context, this.places.x[this.hovered], this.places.y[this.hovered], 6);
        context.stroke();
      }
      this.drawMarker(context, width, height);
    }

    drawLine(context) {
      const [from, to] = this.ends.map((n) => this.placeOf(this.codeOf(n)).slice(0, 2));
      context.strokeStyle = color('--ink');
      context.lineWidth = 1.5;
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(...from);
      context.lineTo(...to);
      context.stroke();
      context.setLineDash([]);
      context.textAlign = 'center';
      context.textBaseline = 'middle';
      [['A', from], ['B', to]].forEach(([name, [x, y]]) => {
        context.fillStyle = color('--ink');
        circle(context, x, y, 8);
        context.fill();
        context.fillStyle = color('--paper');
        context.fillText(name, x, y + 0.5);
      });
    }

    drawMarker(context, width, height) {
      const [x, y, depth] = this.markerPlace(), radius = 8 * this.view.near(depth);
      if (this.view.strip) {
        context.fillStyle = color('--ink');
        context.fillRect(x - 0.5, this.view.margin.top, 1, height - this.view.margin.bottom
                                                           - this.view.margin.top);
      }
      if (this.decode) this.drawFollower(context, x, y, width, height);
      context.lineWidth = 5;
      context.strokeStyle = color('--paper');
      circle(context, x, y, radius);
      context.stroke();
      context.lineWidth = 2.5;
      context.strokeStyle = color('--ink');
      circle(context, x, y, radius);
      context.stroke();
      context.fillStyle = color('--ink');
      circle(context, x, y, 2);
      context.fill();
    }

    // Draws the picture at z beside the marker, farther away from a finger.
    drawFollower(context, x, y, width, height) {
      const {height: H, width: W} = this.data, scale = followSize / Math.max(H, W);
      const [w, h] = [W * scale, H * scale], gap = this.touched ? 34 : 16;
      const left = x + gap + w + 2 < width ? x + gap : x - gap - w;
      const top = clamp(y - gap - h, 2, height - h - 2);
      context.fillStyle = color('--ink');
      context.fillRect(left - 1.5, top - 1.5, w + 3, h + 3);
      context.imageSmoothingEnabled = false;
      context.drawImage(this.image, left, top, w, h);
    }

    // ---- The pointer and the keys.

    // Returns the place of a code on the screen; in a strip, in the middle of the lanes.
    placeOf(code) {
      return this.view.project([0, 1, 2].map((k) => (k < this.cloud.dimensions
        ? this.system.coordinate(code, k) - this.cloud.center[k] : 0)));
    }

    markerPlace() { return this.placeOf(this.z); }

    // Moves the marker to a place on the screen, in the plane of this depth.
    dragTo(x, y, depth) {
      const point = this.view.under(x, y, depth);
      for (let k = 0; k < this.cloud.dimensions; ++k) {
        const {min, max} = this.system.ranges[k];
        this.system.shift(this.z, k, clamp(point[k] + this.cloud.center[k], min, max));
      }
      this.moved();
    }

    listen() {
      const place = (event) => {
        const box = this.canvas.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      const on = (name, act) => this.canvas.addEventListener(name, (event) => {
        if (event.isPrimary) act(event, ...place(event));
      });
      on('pointerdown', (event, x, y) => this.press(event, x, y));
      on('pointermove', (event, x, y) => (this.held ? this.pull(x, y) : this.point(event, x, y)));
      on('pointerup', (event, x, y) => this.release(x, y));
      on('pointercancel', () => { this.held = null; });
      on('pointerleave', () => this.hover(-1));
      this.canvas.addEventListener('keydown', (event) => this.key(event));
    }

    onMarker(event, x, y) {
      const [mx, my] = this.markerPlace();
      return Math.hypot(mx - x, my - y) <= (event.pointerType === 'touch' ? 22 : 14);
    }

    press(event, x, y) {
      if (event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.touched = event.pointerType === 'touch';
      this.hover(-1);
      const [mx, my, depth] = this.markerPlace();
      const marked = this.decode && this.onMarker(event, x, y);
      const moves = marked || (this.decode && !this.view.turns);
      this.held = {x, y, depth, moves, marked, still: true, yaw: this.view.yaw,
                   pitch: this.view.pitch, grip: marked ? [mx - x, my - y] : [0, 0]};
      if (moves && !marked) this.dragTo(x, y, depth);
    }

    pull(x, y) {
      const {held} = this;
      if (Math.hypot(x - held.x, y - held.y) > 4) held.still = false;
      if (held.still) return;
      if (held.moves) {
        this.dragTo(x + held.grip[0], y + held.grip[1], held.depth);
      } else if (this.view.turns) {
        this.view.turn(held.yaw + (x - held.x) * 0.01, held.pitch + (y - held.y) * 0.01);
        this.redraw({points: true});
      }
    }

    // Moves z to the code of a point that was clicked, not dragged.
    release(x, y) {
      const {held} = this;
      this.held = null;
      if (!held || !held.still || held.marked) return;
      const nearest = this.nearest(x, y);
      if (nearest >= 0) this.moveTo(this.codeOf(nearest));
    }

    nearest(x, y) {
      let best = -1, least = picked ** 2;
      for (let n = 0; n < this.N; ++n) {
        const distance = (this.places.x[n] - x) ** 2 + (this.places.y[n] - y) ** 2;
        if (distance < least && !this.hidden.has(this.classes[n])) {
          best = n;
          least = distance;
        }
      }
      return best;
    }

    point(event, x, y) {
      if (event.pointerType === 'touch') return;
      const marked = this.decode && this.onMarker(event, x, y);
      this.canvas.style.cursor = marked ? 'grab' : '';
      this.hover(marked ? -1 : this.nearest(x, y));
    }

    // Shows the class of image n, and the image if the page has it; -1: none.
    hover(n) {
      if (n === this.hovered) return;
      this.hovered = n;
      this.hint.hidden = n < 0;
      this.redraw({});
      if (n < 0) return;
      const {channels, height, width} = this.data, size = channels * height * width;
      this.hint.replaceChildren(element('span', {}, this.classNames[this.classes[n]]));
      if (n < this.M)
        this.hint.prepend(picture(this.pictures.values.subarray(n * size, (n + 1) * size), height,
                                  width));
      const [x, y] = [this.places.x[n], this.places.y[n]];
      const right = x > this.canvas.clientWidth / 2, below = y < 90;
      this.hint.style.left = `${x + (right ? -12 : 12)}px`;
      this.hint.style.top = `${y + (below ? 12 : -12)}px`;
      this.hint.style.transform = `translate(${right ? -100 : 0}%, ${below ? 0 : -100}%)`;
    }

    key(event) {
      const way = ways.get(event.key);
      if (!way || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      this.hover(-1);
      const [dx, dy] = way;
      if (this.view.turns && !event.shiftKey) {
        this.view.turn(this.view.yaw + 0.1 * dx, this.view.pitch + 0.1 * dy);
        this.redraw({points: true});
      } else if (this.decode) {
        const [x, y, depth] = this.markerPlace();
        this.dragTo(x + 8 * dx, y + 8 * dy, depth);
      }
    }
  }

  parts.latent = (host, data) => new Latent(host, data).build();
}
