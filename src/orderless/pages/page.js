// Shows the numbers of a chart where one points, or where the arrow keys lead. Nothing else on the page needs a script.
for (const plot of document.querySelectorAll('.plot[data-read]')) {
  const chart = JSON.parse(plot.dataset.read);
  const area = plot.querySelector('.area');
  const places = [...new Set(chart.lines.flatMap(line => line.points.map(point => point[0])))].sort((a, b) => a - b);
  const guide = document.createElement('div');
  const read = document.createElement('output');
  guide.className = 'guide';
  read.className = 'read';
  guide.hidden = read.hidden = true;
  area.append(guide, read);
  area.tabIndex = 0;
  area.setAttribute('aria-label', 'Values: left and right arrow keys');
  let at = 0;

  const show = index => {
    at = Math.min(places.length - 1, Math.max(0, index));
    const x = places[at];
    const share = (x - chart.low) / (chart.high - chart.low);
    read.replaceChildren(`${chart.x} ${x.toLocaleString('en')}`);
    for (const line of chart.lines) {
      const near = line.points.reduce((best, point) => Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best);
      if (near[0] !== x && chart.lines.length > 1 && !line.points.some(point => point[0] >= x)) continue;
      const row = document.createElement('div');
      const name = document.createElement('b');
      name.className = `c${line.color}`;
      name.textContent = line.name;
      row.append(name, near[1]);
      read.append(row);
    }
    read.style.columnCount = Math.ceil(chart.lines.length / 12);
    guide.style.left = `${100 * share}%`;
    read.style.left = share < 0.5 ? `calc(${100 * share}% + 8px)` : 'auto';
    read.style.right = share < 0.5 ? 'auto' : `calc(${100 - 100 * share}% + 8px)`;
    guide.hidden = read.hidden = false;
  };
  const hide = () => { guide.hidden = read.hidden = true; };

  area.addEventListener('pointermove', event => {
    const box = area.getBoundingClientRect();
    const x = chart.low + (chart.high - chart.low) * (event.clientX - box.left) / box.width;
    show(places.reduce((best, place, index) => Math.abs(place - x) < Math.abs(places[best] - x) ? index : best, 0));
  });
  area.addEventListener('pointerleave', hide);
  area.addEventListener('blur', hide);
  area.addEventListener('keydown', event => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (step) { event.preventDefault(); show(at + step); }
    if (event.key === 'Escape') hide();
  });
}
