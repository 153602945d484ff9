'use strict';

// Shows the latent space of an autoencoder: a cloud of the codes of images, a point z that the user
// moves, and the picture that the decoder computes from z.
{
  const EYE = 4;      // distance of the viewer from the center of a 3-D cloud, in radii
  const REACH = 12;   // maximum distance of the pointer from a point, in CSS pixels
  const STEPS = 9;    // number of interpolated pictures between two images
  const WAYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  // Returns the coordinates of the sliders: z itself if Z <= 3, otherwise principal components.
  // Coordinate k of z is axes[k] · (z - mean); the axes are orthonormal rows.
  function coordinatesOf({latent: Z, basis, codes}) {
    const own = Z <= 3, mean = own ? new Float32Array(Z) : arrayOf(basis.mean).values;
    const axes = own ? Float32Array.from({length: Z * Z}, (_, i) => i % (Z + 1) === 0 ? 1 : 0)
                     : arrayOf(basis.axes).values;
    const of = (z, k, start = 0) => {
      let sum = 0;
      for (let d = 0; d < Z; ++d) sum += axes[k * Z + d] * (z[start + d] - mean[d]);
      return sum;
    };
    const shift = (z, k, value) => {
      const step = value - of(z, k);
      for (let d = 0; d < Z; ++d) z[d] += step * axes[k * Z + d];
    };
    const names = Array.from({length: axes.length / Z}, (_, k) => `${own ? 'z' : 'PC'}${k + 1}`);
    const ranges = rangesOf([...names.keys()], of, arrayOf(codes), own);
    return {own, of, shift, names, ranges};
  }

  // Returns the range of each slider: 1.1 times that of the codes. For z itself all ranges have
  // equal width, so that a dimension that the codes hardly use can be explored as well.
  function rangesOf(axes, of, {shape: [N, Z], values}, own) {
    const ends = axes.map((k) => {
      let min = Infinity, max = -Infinity;
      for (let n = 0; n < N; ++n) {
        const value = of(values, k, n * Z);
        [min, max] = [Math.min(min, value), Math.max(max, value)];
      }
      return {middle: max >= min ? (min + max) / 2 : 0, half: max > min ? 0.55 * (max - min) : 1};
    });
    const widest = ends.reduce((most, {half}) => Math.max(most, half), 0);
    return ends.map(({middle, half}) => ({middle, half: own ? widest : half}));
  }

  // The positions of codes on the screen: a 3-D cloud in perspective, a flat one without. The codes
  // of a single dimension are in lanes, one for each class.
  class View {
    constructor(coordinates, {latent, classes, classCount, codes}) {
      this.dimensions = coordinates.own ? latent : 2;
      this.turns = this.dimensions === 3;
      this.ranges = coordinates.ranges.slice(0, this.dimensions);
      this.lane = (n) => this.dimensions > 1 ? 0
        : 1 - 2 * (classes[n] + 0.1 + 0.8 * (n * 0.618034 % 1)) / classCount;
      this.placeOfCode = (z, start = 0, up = 0) => [0, 1, 2].map((k) => k < this.dimensions
        ? coordinates.of(z, k, start) - this.ranges[k].middle : k === 1 ? up : 0);
      this.points = Array.from(classes, (_, n) =>
        this.placeOfCode(codes, n * latent, this.lane(n)));
      this.radius = this.points.map((point) => Math.hypot(...point)).sort((a, b) => a - b)
        .at(Math.floor(0.99 * classes.length)) * 1.08 || 1;
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
      const extents = this.turns ? [this.radius, this.radius]
                                 : [this.ranges[0].half, this.ranges[1]?.half ?? 1];
      const fits = [width, height].map((pixels, i) => (pixels / 2 - 24) / extents[i]);
      this.middle = [width / 2, height / 2];
      this.scale = this.dimensions === 1 ? fits : Array(2).fill(Math.min(...fits));
    }

    near(depth) { return this.turns ? EYE / (EYE - clamp(depth / this.radius, -2, 2)) : 1; }

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

  function circle(context, [x, y], radius) {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
  }

  function line(context, from, to) {
    context.beginPath();
    context.moveTo(from[0], from[1]);
    context.lineTo(to[0], to[1]);
    context.stroke();
  }

  class Latent {
    constructor(host, data) {
      Object.assign(this, {host, data, classes: arrayOf(data.classes).values,
                           codes: arrayOf(data.codes).values, pictures: arrayOf(data.pictures),
                           reconstructed: arrayOf(data.reconstructed).values,
                           coordinates: coordinatesOf(data), hidden: new Set(), hovered: -1,
                           z: new Float32Array(data.latent), due: 0, stale: true});
      [this.N, this.M] = [this.classes.length, this.pictures.shape[0]];
      const classCount = this.classes.reduce((most, c) => Math.max(most, c + 1),
                                             data.class_names.length);
      this.classNames = Array.from({length: classCount},
                                   (_, c) => data.class_names[c] || `class ${c}`);
      this.view = new View(this.coordinates, {...this, latent: data.latent, classCount});
      this.ends = [-1, -1];  // the images between which pictures are drawn
      this.next = 0;         // the end that the next click chooses
      this.decode = data.decoder ? decoderOf(data.decoder) : null;
    }

    build() {
      const {host} = this;
      host.classList.add('latent');
      host.append(this.caption(), this.legend(), this.stage());
      if (this.M > 0) host.append(...this.gallery());
      if (this.M > 0 && this.decode) host.append(...this.between());
      this.listen();
      this.center();
      if (this.M > 0 && this.decode) {
        const other = this.pairs.findIndex((_, n) => this.classes[n] !== this.classes[0]);
        this.ends = [0, other > 0 ? other : this.M - 1];
        this.showEnds();
      }
      drawn(host, () => this.redraw());
      host.decode = this.decode ? (z) => this.decode(Float32Array.from(z)).slice() : null;
    }

    caption() {
      const {latent} = this.data, {dimensions, turns} = this.view;
      const where = latent > 3 ? 'the plane shows the two directions (principal components, PC) '
                               + 'along which the codes vary most'
        : dimensions === 1 ? 'a point is at its code, in the lane of its class'
        : turns ? 'drag the background to turn the cloud' : 'a point is at its code';
      const move = this.decode ? 'Drag the ringed marker z, or click a point: the decoder draws '
                               + 'the image of this code.' : 'The ring marks the image you choose.';
      return element('p', {}, `The codes of ${this.N} images that the model was not trained on, `
        + `${latent} number${latent === 1 ? '' : 's'} each, colored by class; ${where}. ${move}`);
    }

    legend() {
      return element('div', {class: 'legend', role: 'group', 'aria-label': 'Classes shown'},
        ...this.classNames.map((name, c) => {
          const button = toggleButton('', (shown) => {
            if (shown) this.hidden.delete(c);
            else this.hidden.add(c);
            this.hover(-1);
            this.redraw();
          }, true);
          const style = `background: var(--series-${c % 10})`;
          button.append(element('span', {class: 'dot', style}),
                        element('span', {class: 'name', title: name}, name));
          return button;
        }));
    }

    // Returns the cloud, beside it the picture at z, and below both the sliders.
    stage() {
      const {turns} = this.view, {height, width, why_no_decoder: why} = this.data;
      this.pointsCanvas = element('canvas', {class: 'points', 'aria-hidden': 'true'});
      this.canvas = element('canvas', {
        class: 'front', tabindex: 0, role: 'application',
        'aria-label': `Cloud of ${this.N} codes.${turns ? ' Arrow keys turn the cloud.' : ''} `
                    + `${turns ? 'Shift and a' : 'A'}rrow keys move z.`});
      this.hint = element('div', {class: 'hint', hidden: true});
      const cloud = element('div', {class: turns ? 'cloud' : 'cloud flat'}, this.pointsCanvas,
                            this.canvas, this.hint);
      const tools = element('div', {class: 'tools'},
        element('button', {type: 'button', onclick: () => this.center()}, 'Center'),
        element('button', {type: 'button', onclick: () => this.random()}, 'Random image'));
      if (!this.decode) {
        return element('div', {class: 'stage'}, cloud, element('div', {class: 'side'},
          element('p', {class: 'faint'}, why || 'There is no decoder to draw images.'), tools));
      }
      this.image = element('canvas', {class: 'pixels', height, width, role: 'img',
                                      'aria-label': 'The picture that the decoder draws at z',
                                      style: `aspect-ratio: ${width} / ${height}`});
      const shown = element('figure', {}, this.image, element('figcaption', {}, 'Decoded at z'));
      return element('div', {class: 'stage'}, cloud,
                     element('div', {class: 'side'}, shown, tools), this.controls());
    }

    controls() {
      this.sliders = this.coordinates.ranges.map(({middle, half}, k) => {
        const made = slider(this.coordinates.names[k],
                            {min: middle - half, max: middle + half, step: half / 100},
                            (value) => {
                              this.coordinates.shift(this.z, k, value);
                              this.moved();
                            });
        made.shown = element('output', {});
        made.append(made.shown);
        return made;
      });
      return element('div', {class: 'sliders'}, ...this.sliders);
    }

    // Returns image n of pictures or reconstructions.
    imageOf(values, n) {
      const {channels, height, width} = this.data, size = channels * height * width;
      return picture(values.subarray(n * size, (n + 1) * size), height, width);
    }

    // Returns pairs of an image and its reconstruction, each as a button.
    gallery() {
      this.pairs = Array.from({length: this.M}, (_, n) => element('button', {
        type: 'button', class: 'pair', 'aria-pressed': 'false', onclick: () => this.choose(n),
        title: this.classNames[this.classes[n]],
        'aria-label': `Image ${n + 1}, ${this.classNames[this.classes[n]]}, and its reconstruction`,
      }, this.imageOf(this.pictures.values, n), this.imageOf(this.reconstructed, n)));
      const use = this.decode
        ? 'Choose a pair to move z to its code; the first you choose becomes end A, the second end '
          + 'B of the row of pictures beneath, and so on in turn.'
        : 'Choose a pair to see where its code lies.';
      return [element('h4', {}, 'Reconstruction'), element('p', {class: 'faint'},
        `In each pair: the image on the left, its reconstruction on the right. ${use}`),
              element('div', {class: 'pairs'}, ...this.pairs)];
    }

    // Returns the row of pictures between ends A and B.
    between() {
      const {height, width} = this.data;
      this.stepped = Array.from({length: STEPS},
                                () => element('canvas', {class: 'pixels', height, width}));
      this.endsText = element('p', {class: 'faint'});
      return [element('h4', {}, 'Interpolation'), this.endsText, element('div', {class: 'row'},
        ...this.stepped.map((canvas, i) => element('button', {
          type: 'button', onclick: () => this.moveTo(this.mixed(i / (STEPS - 1))),
          'aria-label': `Picture ${i + 1} of ${STEPS} from A to B`}, canvas)))];
    }

    // ---- Moving z.

    codeOf(n) { return this.codes.subarray(n * this.data.latent, (n + 1) * this.data.latent); }

    moveTo(z) {
      this.z.set(z);
      this.moved();
    }

    moved() {
      this.host.dataset.z = Array.from(this.z, (value) => Number(value.toPrecision(9))).join(',');
      this.redraw(this.stale);
    }

    center() { this.moveTo(arrayOf(this.data.basis.mean).values); }

    random() { this.moveTo(this.codeOf(Math.floor(Math.random() * this.N))); }

    choose(n) {
      this.ends[this.next] = n;
      this.next = 1 - this.next;
      if (this.decode) {
        this.showEnds();
      } else {
        this.pairs.forEach((pair, i) => pair.setAttribute('aria-pressed', i === n));
      }
      this.moveTo(this.codeOf(n));
    }

    // Returns the code at the fraction t of the way from A to B.
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
      const name = (n) => `image ${n + 1} (${this.classNames[this.classes[n]].slice(0, 40)})`;
      this.endsText.textContent = `A is ${name(A)}, B is ${name(B)}. The pictures are decoded in `
        + `${STEPS} equal steps from the code of A to that of B.`;
      this.stepped.forEach((canvas, i) => paint(canvas, this.decode(this.mixed(i / (STEPS - 1))),
                                                height, width));
      this.redraw(this.stale);
    }

    // ---- Drawing, at most once per frame; `points`: also the points, which move only by turning.

    redraw(points = true) {
      this.stale = points || this.stale;
      this.due ||= requestAnimationFrame(() => {
        this.due = 0;
        if (this.decode) this.showZ();
        if (this.stale) this.drawCloud();
        this.stale = false;
        this.drawFront();
      });
    }

    showZ() {
      paint(this.image, this.decode(this.z), this.data.height, this.data.width);
      this.sliders.forEach((made, k) => {
        const value = this.coordinates.of(this.z, k);
        made.slider.value = value;
        made.shown.textContent = value.toFixed(2).replace(/^-(0\.00)$/, '$1');
      });
    }

    // Draws the points. A nearer point is larger and less faint; in a flat cloud all look alike.
    drawCloud() {
      const {view, classes} = this, {context, width, height} = contextOf(this.pointsCanvas);
      view.resize(width, height);
      this.drawAxes(context);
      this.places = view.points.map((point) => view.project(point));
      const tints = this.classNames.map((_, c) => seriesColor(c));
      const order = [...this.places.keys()].filter((n) => !this.hidden.has(classes[n]));
      if (view.turns) order.sort((a, b) => this.places[a][2] - this.places[b][2]);
      for (const n of order) {
        const depth = this.places[n][2] / view.radius;
        const near = view.turns ? clamp((depth + 1) / 2, 0, 1) : 0.6;
        context.globalAlpha = 0.35 + 0.6 * near;
        context.fillStyle = tints[classes[n]];
        circle(context, this.places[n], 1.7 + 1.7 * near);
        context.fill();
      }
      context.globalAlpha = 1;
    }

    // Draws the axes through the center of the cloud, with their names and, in a flat cloud, the
    // values at their ends.
    drawAxes(context) {
      const {view} = this;
      context.font = `12px ${getComputedStyle(this.host).fontFamily}`;
      context.strokeStyle = color('--line');
      context.fillStyle = color('--ink');
      context.textAlign = 'center';
      view.ranges.forEach(({middle, half}, k) => {
        const reach = view.turns ? 0.95 * view.radius : half;
        const ends = [-reach, reach].map((at) =>
          view.project([0, 1, 2].map((i) => i === k ? at : 0)));
        line(context, ...ends);
        const name = this.coordinates.names[k];
        const texts = view.turns ? ['', name]
                                 : [figure(middle - half), `${name} ${figure(middle + half)}`];
        ends.forEach(([x, y], i) => context.fillText(texts[i], x, y + (k && i ? -8 : 16)));
      });
    }

    // Draws what moves without the points: the line from A to B, the ring of the point under the
    // pointer, and the marker.
    drawFront() {
      const {context} = contextOf(this.canvas), ink = color('--ink'), paper = color('--paper');
      context.font = `bold 12px ${getComputedStyle(this.host).fontFamily}`;
      context.textAlign = 'center';
      context.textBaseline = 'middle';
      context.strokeStyle = ink;
      context.lineWidth = 1.5;
      if (this.decode && this.ends[0] >= 0) {
        const ends = this.ends.map((n) => this.view.project(this.view.placeOfCode(this.codeOf(n))));
        context.setLineDash([5, 4]);
        line(context, ...ends);
        context.setLineDash([]);
        ends.forEach((end, i) => {
          context.fillStyle = ink;
          circle(context, end, 8);
          context.fill();
          context.fillStyle = paper;
          context.fillText('AB'[i], end[0], end[1] + 0.5);
        });
      }
      const ring = (place, radius, [tint, width]) => {
        circle(context, place, radius);
        [context.strokeStyle, context.lineWidth] = [tint, width];
        context.stroke();
      };
      if (this.hovered >= 0) ring(this.places[this.hovered], 6, [ink, 2]);
      const marker = this.markerPlace();
      const size = 8 * this.view.near(marker[2]);
      for (const look of [[paper, 5], [ink, 2.5]]) ring(marker, size, look);
      context.fillStyle = ink;
      circle(context, marker, 2);
      context.fill();
    }

    // ---- The pointer and the keys.

    markerPlace() { return this.view.project(this.view.placeOfCode(this.z)); }

    // Moves the marker to a place on the screen, in the plane of this depth.
    dragTo(x, y, depth) {
      const point = this.view.under(x, y, depth);
      this.view.ranges.forEach(({middle, half}, k) =>
        this.coordinates.shift(this.z, k, middle + clamp(point[k], -half, half)));
      this.moved();
    }

    listen() {
      const on = (name, act) => this.canvas.addEventListener(name, (event) => {
        const box = this.canvas.getBoundingClientRect();
        if (event.isPrimary) act(event, event.clientX - box.left, event.clientY - box.top);
      });
      on('pointerdown', (event, x, y) => this.press(event, x, y));
      on('pointermove', (event, x, y) => this.held ? this.pull(x, y) : this.point(event, x, y));
      on('pointerup', (event, x, y) => this.release(x, y));
      on('pointercancel', () => { this.held = null; });
      on('pointerleave', () => this.hover(-1));
      this.canvas.addEventListener('keydown', (event) => this.key(event));
    }

    onMarker(event, x, y) {
      const [mx, my] = this.markerPlace();
      return this.decode && Math.hypot(mx - x, my - y) <= (event.pointerType === 'touch' ? 22 : 14);
    }

    press(event, x, y) {
      if (event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.hover(-1);
      const {yaw, pitch, turns} = this.view, [mx, my, depth] = this.markerPlace();
      const marked = this.onMarker(event, x, y), moves = marked || (this.decode && !turns);
      this.held = {x, y, depth, moves, marked, still: true, yaw, pitch,
                   grip: marked ? [mx - x, my - y] : [0, 0]};
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
        this.redraw();
      }
    }

    // Moves z to the code of a point that was clicked, not dragged.
    release(x, y) {
      const {held} = this;
      this.held = null;
      const nearest = held?.still && !held.marked ? this.nearest(x, y) : -1;
      if (nearest >= 0) this.moveTo(this.codeOf(nearest));
    }

    // Returns the shown point that is nearest to a place, within reach; -1 if there is none.
    nearest(x, y) {
      let best = -1, least = REACH;
      this.places.forEach(([px, py], n) => {
        const distance = Math.hypot(px - x, py - y);
        if (distance < least && !this.hidden.has(this.classes[n])) [best, least] = [n, distance];
      });
      return best;
    }

    point(event, x, y) {
      if (event.pointerType === 'touch') return;
      const marked = this.onMarker(event, x, y);
      this.canvas.style.cursor = marked ? 'grab' : '';
      this.hover(marked ? -1 : this.nearest(x, y));
    }

    // Shows the class of image n, and the image if the page has it; -1: none.
    hover(n) {
      if (n === this.hovered) return;
      this.hovered = n;
      this.hint.hidden = n < 0;
      this.redraw(this.stale);
      if (n < 0) return;
      this.hint.replaceChildren(...(n < this.M ? [this.imageOf(this.pictures.values, n)] : []),
                                element('span', {}, this.classNames[this.classes[n]]));
    }

    key(event) {
      if (!(event.key in WAYS) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      this.hover(-1);
      const [dx, dy] = WAYS[event.key], {view} = this;
      if (view.turns && !event.shiftKey) {
        view.turn(view.yaw + 0.1 * dx, view.pitch + 0.1 * dy);
        this.redraw();
      } else if (this.decode) {
        const [x, y, depth] = this.markerPlace();
        this.dragTo(x + 8 * dx, y + 8 * dy, depth);
      }
    }
  }

  parts.latent = (host, data) => new Latent(host, data).build();
}
