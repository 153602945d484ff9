'use strict';

// Functions that all parts of the page share. Each part registers itself under the name that its
// element has in data-show, and shows the JSON of the element whose id is in data-of. Text of a run
// is added as textContent only: nothing here parses HTML.

const parts = {};  // keyed by name: functions (element, data) that show the data in the element

// Creates an element: element('button', {class: 'chosen', onclick: act}, 'text', child, …)
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Converts the bits of a finite float16.
function halfToFloat(half) {
  const sign = half & 0x8000 ? -1 : 1, exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// Decodes {dtype: 'f32' | 'f16' | 'u8' | 'i32', shape, base64}, little-endian, to {shape, values}.
function arrayOf({dtype, shape, base64}) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  if (dtype === 'u8') return {shape, values: bytes};
  if (dtype === 'i32') return {shape, values: new Int32Array(bytes.buffer)};
  if (dtype === 'f32') return {shape, values: new Float32Array(bytes.buffer)};
  return {shape, values: Float32Array.from(new Uint16Array(bytes.buffer), halfToFloat)};
}

// Returns a number as text with 4 significant digits; whole numbers below 1e9 have all digits.
function figure(value) {
  if (!Number.isFinite(value)) return 'missing';
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
  const size = Math.abs(value);
  return size >= 1e6 || (size < 1e-3 && size > 0) ? value.toExponential(3)
                                                  : String(Number(value.toPrecision(4)));
}

// Returns a color of the page's current theme (light or dark) by its CSS variable: color('--ink').
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Returns the i-th of ten colors that distinguish series; from the eleventh on they repeat.
const seriesColor = (i) => color(`--series-${i % 10}`);

// Calls draw() now, when the theme turns light or dark, and when the element's width changes.
function drawn(host, draw) {
  let due = 0;
  const later = () => {
    cancelAnimationFrame(due);
    due = requestAnimationFrame(draw);
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', later);
  let width = host.clientWidth;
  new ResizeObserver(() => {
    if (host.clientWidth !== width) later();
    width = host.clientWidth;
  }).observe(host);
  draw();
}

// Clears a canvas, and returns its context in CSS pixels, with the resolution of the screen.
function contextOf(canvas) {
  const scale = window.devicePixelRatio || 1, {clientWidth: width, clientHeight: height} = canvas;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return {context, width, height};
}

// Returns a button that stays pressed; toggled(on) is called when its state changes.
function toggleButton(text, toggled, on = false) {
  const button = element('button', {type: 'button', 'aria-pressed': String(on), onclick: () => {
    const pressed = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(pressed));
    toggled(pressed);
  }}, text);
  return button;
}

// Returns a labeled <select> of texts, hidden if there is only one; chosen(index) is called when
// the selection changes.
function chooser(label, texts, chosen, index = 0) {
  const select = element('select', {onchange: () => chosen(select.selectedIndex)},
                         ...texts.map((text) => element('option', {}, text)));
  select.selectedIndex = index;
  return element('label', {class: 'control', hidden: texts.length < 2}, label, select);
}

// Returns a labeled slider, whose input is the property `slider`; moved(value) is called when the
// slider moves.
function slider(label, {min, max, step, value}, moved) {
  const input = element('input', {type: 'range', min, max, step, value,
                                  oninput: () => moved(Number(input.value))});
  const made = element('label', {class: 'control'}, label, input);
  made.slider = input;
  return made;
}

// Returns a canvas of pixels from 0 (black) to 255 (white): one plane of gray values, or planes of
// red, green and blue, of height · width numbers each.
function picture(pixels, height, width) {
  const canvas = element('canvas', {class: 'pixels', width, height});
  paint(canvas, pixels, height, width);
  return canvas;
}

function paint(canvas, pixels, height, width) {
  const image = new ImageData(width, height), plane = height * width;
  const isGray = pixels.length === plane;
  for (let i = 0; i < plane; ++i) {
    for (let channel = 0; channel < 3; ++channel)
      image.data[4 * i + channel] = pixels[isGray ? i : channel * plane + i];
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext('2d').putImageData(image, 0, 0);
}

// Shows every part when the page is loaded. If a part fails, its HTML for browsers without scripts
// stays.
document.addEventListener('DOMContentLoaded', () => {
  for (const host of document.querySelectorAll('[data-show]')) {
    const shown = element('div', {class: 'live'});
    host.append(shown);
    try {
      const data = JSON.parse(document.getElementById(host.dataset.of).textContent);
      parts[host.dataset.show](shown, data);
      host.classList.add('is-live');
    } catch (error) {
      shown.remove();
      console.error(host.dataset.show, error);
    }
  }
  document.documentElement.classList.add('shown');
});
