// Shows the tokens of a text as a row of boxes, for several parts of the page. A row is one tab
// stop, in which the arrow keys move, and is colored by weights.
const tokens = {};
{
  const WHITESPACE = {'\n': '↵', '\r': '␍', '\t': '⇥'};
  const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;  // marks that change the direction of text

  // Returns a token with visible marks for line ends, tabs, direction marks and lone spaces.
  function visible(text) {
    if (text === '') return '∅';
    const marked = text.replace(/[\n\r\t]/g, (space) => WHITESPACE[space])
      .replace(TURNING, '\ufffd');
    return /^ +$/.test(marked) ? '·'.repeat(marked.length) : marked;
  }

  const quoted = (text) => {
    const shown = visible(text);
    return `“${shown.length > 40 ? `${Array.from(shown).slice(0, 40).join('')}…` : shown}”`;
  };

  function percent(weight) {
    if (weight > 0 && weight < 0.0095) return '<\u00a01\u00a0%';
    return `${Math.round(100 * weight)}\u00a0%`;
  }

  function token(text, role) {
    return element('span', {class: 'token', role, title: visible(text)},
                   element('span', {class: 'word'}, visible(text)));
  }

  function tokenRow(label, texts, role) {
    const spans = texts.map((text) => token(text, role === 'listbox' ? 'option' : 'listitem'));
    const row = element('div', {class: 'token-row', role, 'aria-label': label}, ...spans);
    return {row, spans};
  }

  const STEPS = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};

  // Returns the item to which a key moves from item i of `count`; undefined for other keys.
  function stepped(key, i, count) {
    if (key === 'Home') return 0;
    if (key === 'End') return count - 1;
    return key in STEPS ? Math.min(count - 1, Math.max(0, i + STEPS[key])) : undefined;
  }

  // Makes spans one tab stop with arrow keys. pointed(i) is called for the span under the pointer
  // or with the focus. Returns a function that moves the tab stop to the i-th span.
  function roving(spans, pointed) {
    spans.forEach((span, i) => {
      span.addEventListener('pointerover', () => pointed(i));
      span.addEventListener('focus', () => pointed(i));
      span.addEventListener('keydown', (event) => {
        const next = stepped(event.key, i, spans.length);
        if (next === undefined) return;
        event.preventDefault();
        spans[next].focus();
      });
    });
    return (stop) => spans.forEach((span, i) => { span.tabIndex = i === stop ? 0 : -1; });
  }

  // Returns the indices of the `count` largest weights above 0, in descending order.
  function largest(weights, count) {
    return Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a])
      .slice(0, count).filter((i) => weights[i] > 0);
  }

  // Colors each span by its weight, and adds numbers to the 8 largest.
  function weigh(spans, texts, weights) {
    const greatest = Math.max(...weights) || 1;
    const numbered = new Set(largest(weights, 8));
    spans.forEach((span, i) => {
      span.style.setProperty('--weight', (weights[i] / greatest).toFixed(3));
      span.dataset.percent = numbered.has(i) ? percent(weights[i]) : '';
      span.title = `${visible(texts[i])}: ${percent(weights[i])}`;
    });
  }

  Object.assign(tokens, {visible, quoted, percent, token, tokenRow, roving, largest, weigh});
}
