// Shows the samples of a model, texts or pictures, by the step of the training.
{
  const SHOWN_WIDTH = 560;  // maximum width in pixels to which a small picture is enlarged

  // Enlarges an image by a whole number, so that all of its pixels have the same size.
  function enlarge(image) {
    const times = Math.max(1, Math.floor(SHOWN_WIDTH / image.naturalWidth));
    image.style.width = `${times * image.naturalWidth}px`;
  }

  function sampleOf({text, png, step}, name) {
    if (png === undefined) return element('pre', {tabindex: 0}, text);
    return element('img', {class: 'pixels', src: png, alt: `${name} at step ${step}`,
                           onload: ({target}) => enlarge(target)});
  }

  parts.samples = (host, data) => {
    const {samples} = data, last = samples.length - 1;
    const place = element('div'), told = element('span', {role: 'status'});
    let current = last;
    const button = (text, by) =>
      element('button', {type: 'button', onclick: () => show(current + by)}, text);
    const before = button('Previous', -1), after = button('Next', 1);
    const chosen = slider('Step', {min: 0, max: last, step: 1, value: last}, (i) => show(i));

    const show = (index) => {
      current = Math.min(last, Math.max(0, index));
      const {step} = samples[current];
      host.dataset.step = step;
      told.textContent = `after step ${step}${data.steps > 0 ? ` of ${data.steps}` : ''}`;
      chosen.slider.value = current;
      chosen.slider.setAttribute('aria-valuetext', `step ${step}`);
      [before.disabled, after.disabled] = [current === 0, current === last];
      place.replaceChildren(sampleOf(samples[current], data.name));
    };

    host.classList.add('samples');
    host.append(element('div', {class: 'controls'}, ...(last ? [chosen, before, after] : []), told),
                place);
    show(last);
  };
}
