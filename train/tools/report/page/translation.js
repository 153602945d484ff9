// Shows the best and the worst translations of a model, and the cross-attention of each predicted
// token to the source.
{
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

  // Returns both sentences, whose tokens are colored by their weights for the token pointed at.
  function alignment(pair) {
    const source = tokenRow('source tokens', pair.source, 'listbox');
    const written = tokenRow('predicted tokens', pair.prediction, 'listbox');
    const spans = [...source.spans, ...written.spans];
    const texts = [...pair.source, ...pair.prediction];
    const root = element('div', {class: 'alignment'}, element('b', {}, 'Source tokens'), source.row,
                         element('b', {}, 'Predicted tokens'), written.row);
    let layer, pointed = pair.source.length;
    const point = (k) => {
      pointed = k;
      weigh(spans, texts, weightsOf(layer, k));
      spans.forEach((span, i) => {
        span.setAttribute('aria-selected', i === k);
        if ((i < layer.sources) === (k < layer.sources)) span.title = visible(texts[i]);
      });
      move(k);
    };
    const move = roving(spans, point);
    return {root, show(newLayer) {
      layer = newLayer;
      point(Math.min(pointed, spans.length - 1));
    }};
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
                + 'attends to that source token.'),
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
  };
}
