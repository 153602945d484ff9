'use strict';

// The decoder of an autoencoder: decoderOf(description) returns a function that maps z (Z) to
// pixels (channels · height · width) from 0 to 255. The next call overwrites the returned pixels,
// because all buffers are created once. Throws Error for an unknown layer or activation, and for
// layers that do not fit together.

let decoderOf;
{
  // Returns 2/√π e^(-x²) Σ_n 2ⁿ x^(2n+1) / (2n+1)!!. All terms have the same sign, so nothing
  // cancels. From |x| = 4 on the value is ±1 to 2e-8.
  function erf(x) {
    if (Math.abs(x) >= 4) return Math.sign(x);
    const twiceSquare = 2 * x * x;
    let term = x, sum = x;
    for (let odd = 3; Math.abs(term) > 1e-10 * Math.abs(sum); odd += 2) {
      term *= twiceSquare / odd;
      sum += term;
    }
    return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
  }

  const geluArgument = (x) => Math.sqrt(2 / Math.PI) * x * (1 + 0.044715 * x * x);
  const identity = (x) => x;

  const activations = new Map(Object.entries({
    '': identity,
    none: identity,
    identity,
    relu: (x) => (x < 0 ? 0 : x),
    gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
    gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(geluArgument(x))),
    silu: (x) => x / (1 + Math.exp(-x)),
    tanh: Math.tanh,
    sigmoid: (x) => 1 / (1 + Math.exp(-x)),
    softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  }));

  function named(functions, name) {
    if (!functions.has(name)) throw new Error(`decoder: unknown layer or activation ${name}`);
    return functions.get(name);
  }

  function activate(activation, y) {
    if (activation === identity) return;
    for (let i = 0; i < y.length; ++i) y[i] = activation(y[i]);
  }

  // Returns the layer y = W x + b with W (out, in), as Linear stores it. Computes four sums at a
  // time, because each addition of a single sum would wait for the previous one.
  function linear({weight, bias}) {
    const {shape: [out, inner], values: W} = arrayOf(weight), b = arrayOf(bias).values;
    const y = new Float32Array(out);
    const apply = (x) => {
      const whole = inner - inner % 4;
      for (let o = 0, row = 0; o < out; ++o, row += inner) {
        let s0 = b[o], s1 = 0, s2 = 0, s3 = 0;
        for (let i = 0; i < whole; i += 4) {
          s0 += W[row + i] * x[i];
          s1 += W[row + i + 1] * x[i + 1];
          s2 += W[row + i + 2] * x[i + 2];
          s3 += W[row + i + 3] * x[i + 3];
        }
        for (let i = whole; i < inner; ++i) s0 += W[row + i] * x[i];
        y[o] = s0 + s1 + s2 + s3;
      }
      return y;
    };
    return {apply, y, size: inner};
  }

  // Returns the positions i in [0, size) of the features, as [first, last), for which row (or
  // column) p of the kernel falls into the image: 0 <= i · stride + p - padding < extent.
  function reach(p, stride, padding, size, extent) {
    const first = Math.max(0, Math.ceil((padding - p) / stride));
    const last = Math.min(size, Math.floor((extent - 1 + padding - p) / stride) + 1);
    return {first, last};
  }

  // Returns the layer that maps features (C, h, w) with a weight (C, O, K, K) to (O, H, W):
  //   y[o, i stride + p - padding, j stride + q - padding] += weight[c, o, p, q] x[c, i, j].
  function transposedConvolution({weight, bias, stride, padding, in: features, out: image}) {
    const [C, h, w] = features, [O, H, W] = image;
    const {shape: [, , K], values: kernels} = arrayOf(weight), b = arrayOf(bias).values;
    const y = new Float32Array(O * H * W);
    const rows = Array.from({length: K}, (_, p) => reach(p, stride, padding, h, H));
    const columns = Array.from({length: K}, (_, q) => reach(q, stride, padding, w, W));

    // Adds one number of a kernel times a plane x of the features to a plane of the image.
    const spread = (x, plane, target, factor, p, q) => {
      const {first, last} = columns[q];
      for (let i = rows[p].first; i < rows[p].last; ++i) {
        const from = plane + i * w;
        let to = target + (i * stride + p - padding) * W + first * stride + q - padding;
        for (let j = first; j < last; ++j, to += stride) y[to] += factor * x[from + j];
      }
    };
    const apply = (x) => {
      for (let o = 0; o < O; ++o) y.fill(b[o], o * H * W, (o + 1) * H * W);
      let k = 0;  // index in the weight
      for (let c = 0; c < C; ++c)
        for (let o = 0; o < O; ++o)
          for (let p = 0; p < K; ++p)
            for (let q = 0; q < K; ++q) spread(x, c * h * w, o * H * W, kernels[k++], p, q);
      return y;
    };
    return {apply, y, size: C * h * w};
  }

  const kinds = new Map(Object.entries({
    linear, transposed_convolution: transposedConvolution,
  }));

  function layerOf(description) {
    const layer = named(kinds, description.kind)(description);
    return {...layer, activation: named(activations, description.activation)};
  }

  decoderOf = ({layers: descriptions, output}) => {
    const layers = descriptions.map(layerOf);
    layers.slice(1).forEach(({size}, i) => {
      if (layers[i].y.length !== size)
        throw new Error(`decoder: layer ${i + 1} takes ${size} numbers, not ${layers[i].y.length}`);
    });
    const last = named(activations, output);
    const pixels = new Uint8Array(layers[layers.length - 1].y.length);
    return (z) => {
      let x = z;
      for (const {apply, y, activation} of layers) {
        apply(x);
        activate(activation, y);
        x = y;
      }
      for (let i = 0; i < pixels.length; ++i)
        pixels[i] = Math.round(255 * Math.min(1, Math.max(0, last(x[i]))));
      return pixels;
    };
  };
}
