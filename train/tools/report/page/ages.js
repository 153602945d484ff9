'use strict';

// Shows the recall of memories by the age of the items, beside the chance level.
parts.ages = (host, {title, x, y, chances, lines}) => {
  const xs = lines.flatMap(({points}) => points.map(([age]) => age));
  const shown = lines.map(({run, points}, i) => ({name: run, color: i, points}));
  if (xs.length > 0) {
    const ends = [xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b))];
    for (const chance of chances) {
      shown.push({name: 'chance', detail: ' (guessing)', color: null, dashed: true,
                  points: ends.map((age) => [age, chance])});
    }
  }
  const panel = element('div', {class: 'panel'});
  const logAges = toggleButton('Log ages', (logX) => chart.update({logX}));
  logAges.disabled = !xs.some((age) => age > 0);
  host.append(element('div', {class: 'controls'}, logAges), panel);
  const chart = lineChart(panel, {title, xLabel: x, yLabel: y, lines: shown, height: 320});
};
