// Shows the best and the worst translations of a model, and the cross-attention of each predicted
// token to the source.
{
  const LEAST_LINE = 0.1;
  const {visible, tokenRow, roving, weigh} = tokens;

  // Returns a button for each pair of a group, with the score.
  function pairList(name, pairs, choose) {
    const items = pairs.map(({index, source_text: read, prediction_text: written, score}) => {
      const text = `${read} → ${written}`;
      return element('button', {type: 'button', 'data-pair': index, title: text.slice(0, 500),
                                onclick: () => choose(index)},
                     element('span', {class: 'text'}, text),
                     element('span', {class: 'score'}, score.toFixed(2)));
    });
    return element('div', {class: 'group'}, element('b', {}, name),
                   element('div', {class: 'items'}, ...items));
  }

  // Returns the weights between token k of all tokens (source, then prediction) and each token; 0
  // for the tokens of the same sentence.
  function weightsOf({values, sources, writtens}, k) {
    const weights = new Float32Array(sources + writtens);
    if (k < sources) {
      for (let t = 0; t < writtens; ++t) weights[sources + t] = values[t * sources + k] / 255;
    } else {
      for (let s = 0; s < sources; ++s) weights[s] = values[(k - sources) * sources + s] / 255;
    }
    return weights;
  }

  function layerOf({shape: [, writtens, sources], values}, layer) {
    const size = writtens * sources;
    return {sources, writtens, values: values.subarray(layer * size, (layer + 1) * size)};
  }

  // Returns whether the row fits on one line of this width.
  function fits({row, spans}, width) {
    const gap = parseFloat(getComputedStyle(row).columnGap) || 0;
    return spans.reduce((sum, span) => sum + span.offsetWidth + gap, 0) <= width;
  }

  // Returns both sentences with lines between their tokens. If a sentence does not fit on one line,
  // the tokens wrap, and only their colors show the weights.
  function alignment(pair) {
    const source = tokenRow('source tokens', pair.source, 'listbox');
    const written = tokenRow('predicted tokens', pair.prediction, 'listbox');
    const spans = [...source.spans, ...written.spans];
    const texts = [...pair.source, ...pair.prediction];
    const lines = element('svg:svg', {'aria-hidden': 'true'});
    const root = element('div', {class: 'alignment'},
                         element('b', {}, 'Source tokens'), source.row, lines,
                         written.row, element('b', {}, 'Predicted tokens'));
    let layer, pointed = -1;

    const center = (span) => span.offsetLeft + span.offsetWidth / 2;
    const line = (s, t, weight) => {
      const touched = pointed === s || pointed === layer.sources + t;
      return element('svg:line', {
        x1: center(source.spans[s]), y1: 0, x2: center(written.spans[t]), y2: lines.clientHeight,
        class: touched ? 'touched' : '',
        'stroke-opacity': (pointed < 0 || touched ? weight : 0.2 * weight).toFixed(3)});
    };
    const drawLines = () => {
      const made = [];
      layer.values.forEach((value, i) => {
        if (value > 255 * LEAST_LINE) {
          made.push(line(i % layer.sources, Math.floor(i / layer.sources), value / 255));
        }
      });
      lines.replaceChildren(...made);
    };
    const draw = () => {
      root.classList.add('flat');
      const flat = fits(source, root.clientWidth) && fits(written, root.clientWidth);
      root.classList.toggle('flat', flat);
      lines.replaceChildren();
      if (flat) drawLines();
    };
    const point = (k) => {
      pointed = k;
      weigh(spans, texts, k < 0 ? new Float32Array(spans.length) : weightsOf(layer, k));
      spans.forEach((span, i) => {
        span.setAttribute('aria-selected', i === k);
        if (k < 0 || (i < layer.sources) === (k < layer.sources)) span.title = visible(texts[i]);
      });
      move(Math.max(0, k));
      draw();
    };
    const move = roving(spans, point);
    const show = (newLayer) => {
      layer = newLayer;
      point(pointed);
    };
    root.addEventListener('pointerleave', ({pointerType}) => {
      if (pointerType === 'mouse' && !root.contains(document.activeElement)) point(-1);
    });
    root.addEventListener('focusout', ({relatedTarget}) => {
      if (!root.contains(relatedTarget)) point(-1);
    });
    return {root, show, draw};
  }

  const line = (name, text) =>
    element('p', {class: 'line'}, element('b', {}, name), text === '' ? '∅' : text);

  parts.translation = (host, data) => {
    const detail = element('div', {class: 'panel'});
    let shown;

    const choose = (index) => {
      const pair = data.pairs[index], weights = arrayOf(pair.alignments), layers = weights.shape[0];
      const showLayer = (layer) => {
        host.dataset.layer = layer;
        shown.show(layerOf(weights, layer));
      };
      host.dataset.pair = index;
      for (const button of lists.querySelectorAll('button')) {
        button.setAttribute('aria-pressed', Number(button.dataset.pair) === index);
      }
      shown = alignment(pair);
      detail.replaceChildren(
        element('div', {class: 'controls'},
                chooser('Layer', Array.from({length: layers}, (_, i) => `layer ${i}`), showLayer,
                        layers - 1),
                element('span', {class: 'faint'}, `${data.score_name}: ${figure(pair.score)}`)),
        element('p', {class: 'faint'}, 'Point at a token, or move along the tokens with the arrow '
                + 'keys, to see its attention: the stronger the color, the more a predicted token '
                + 'attends to that source token. Lines stand for more than 10\u00a0%.'),
        shown.root, line('Prediction', pair.prediction_text), line('Reference', pair.reference));
      showLayer(layers - 1);
    };
    const numbered = data.pairs.map((pair, index) => ({...pair, index}));
    const groupOf = (name, group) =>
      pairList(name, numbered.filter((pair) => pair.group === group), choose);
    const lists = element('div', {class: 'lists'}, groupOf('Best', 'best'),
                          groupOf('Worst', 'worst'));

    host.classList.add('translation');
    host.append(lists, detail);
    choose(0);
    drawn(host, () => shown.draw());
  };
}
