// Texts of the page whose contrast with what lies behind them is below 4.5, as "ratio text".
(() => {
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const parse = (text) => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const over = (top, below) => below.map((v, i) => i < 3 ? top[i] * top[3] + v * (1 - top[3]) : 1);
  const page = parse(getComputedStyle(document.body).backgroundColor);
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), page);
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || ["SCRIPT", "title", "desc"].includes(element.tagName) || !element.getClientRects().length) continue;
    const style = getComputedStyle(element), drawn = element instanceof SVGElement;
    const ink = parse(drawn ? style.fill : style.color);
    const grounds = [behind(drawn ? element.ownerSVGElement.parentElement : element)];
    if (drawn) {
      const box = element.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
      for (const shape of element.ownerSVGElement.querySelectorAll("path")) {
        const fill = getComputedStyle(shape).fill, r = shape.getBoundingClientRect();
        if (fill.startsWith("rgb") && r.width > 3 && r.x <= x && x <= r.right && r.y <= y && y <= r.bottom) {
          grounds[0] = over(parse(fill), grounds[0]);
        }
      }
    }
    for (const ground of grounds) {
      const [a, b] = [light(over(ink, ground)), light(ground)];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) found.add(`${ratio.toFixed(2)} ${element.tagName} ${style.color}: ${text.slice(0, 60)}`);
    }
  }
  return Array.from(found);
})()
