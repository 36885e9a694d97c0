"use strict";
// What charts have in common: drawn with Observable Plot in the colours of page.css, and again whenever their width changes.
(function (aire) {
  const { h } = aire;
  const STYLE = {
    background: "none",
    color: "var(--ink)",
    fontFamily: "inherit",
    fontSize: "12px",
    overflow: "visible",
  };
  const TIP = { fill: "var(--card)", stroke: "var(--faint)", textPadding: 9, fontSize: 12, lineHeight: 1.35 };
  const POINTS = 260; // drawn of a long line

  // A place for a chart; draw(width) gives an SVG element. The element's redraw() draws it again.
  function chart(draw, label) {
    const place = h("div", { class: "plot" });
    let width = 0;
    place.redraw = () => {
      if (!width) return;
      const drawn = draw(width);
      drawn.setAttribute("role", "img");
      drawn.setAttribute("aria-label", label);
      place.replaceChildren(drawn);
    };
    aire.onWidth(place, (now) => {
      width = now;
      place.redraw();
    });
    return place;
  }

  function plot(width, { x, y, ...options }) {
    const height = options.height ?? Math.round(Math.min(280, Math.max(190, width * 0.6)));
    return Plot.plot({
      width,
      height,
      style: STYLE,
      marginLeft: 50,
      marginRight: 14,
      marginTop: 24,
      marginBottom: 36,
      x: { tickSize: 4, ...x },
      y: { tickSize: 0, tickPadding: 6, ...y },
      ...options,
    });
  }

  function grid(ticks) {
    return Plot.gridY({ stroke: "var(--rule)", strokeOpacity: 1, ...(ticks && { ticks }) });
  }

  // Indices of at most POINTS of n: all of the first, ever fewer of the later ones, and the last.
  function thinned(n) {
    if (n <= POINTS) return d3.range(n);
    const found = new Set(d3.range(POINTS / 2));
    for (let i = 0; i < POINTS / 2; i++)
      found.add(Math.round((POINTS / 2) * (n / (POINTS / 2)) ** (i / (POINTS / 2 - 1))) - 1);
    return [...found].filter((i) => i >= 0 && i < n).sort((a, b) => a - b);
  }

  // A domain for a logarithmic axis: of the positive values, at most so many decades below the largest.
  function logDomain(values, decades = 8) {
    const positive = values.filter((value) => value > 0 && Number.isFinite(value));
    if (!positive.length) return [0.1, 1];
    const top = d3.max(positive);
    const low = Math.max(d3.min(positive), top / 10 ** decades);
    return [low / 1.3, top * 1.3];
  }

  // Round numbers on a logarithmic axis: powers of ten, every few of them, or steps within one.
  function decadeTicks([low, high]) {
    const span = Math.log10(high / low);
    const every = Math.max(1, Math.round(span / 5));
    const digits = span > 2.2 ? [1] : span > 1.1 ? [1, 3] : [1, 2, 3, 5, 7];
    const powers = d3
      .range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1)
      .filter((power) => power % every === 0);
    return powers
      .flatMap((power) => digits.map((digit) => digit * 10 ** power))
      .filter((tick) => tick >= low && tick <= high);
  }

  function decadeFormat(value) {
    const power = Math.round(Math.log10(value));
    return Math.abs(power) > 3 && Math.abs(value / 10 ** power - 1) < 1e-9
      ? `10${aire.raised(power)}`
      : aire.number(value, 2);
  }

  // A key of coloured lines.
  function key(items) {
    const swatch = ({ stroke, opacity = 1, dashed }) =>
      h("i", { style: `--swatch:${stroke};opacity:${opacity}`, class: dashed ? "dashed" : null });
    return h(
      "div",
      { class: "key" },
      items.map((item) => h("span", {}, swatch(item), item.name)),
    );
  }

  // Heights at least `apart` from each other, in their order and inside [top, bottom] as far as they fit.
  function spread(heights, apart, top, bottom) {
    const order = d3.sort(d3.range(heights.length), (i) => heights[i]);
    const placed = heights.slice();
    let limit = top;
    for (const i of order) limit = (placed[i] = Math.max(placed[i], limit)) + apart;
    limit = Math.max(bottom, top + apart * (heights.length - 1));
    for (const i of order.reverse()) limit = (placed[i] = Math.min(placed[i], limit)) - apart;
    return placed;
  }

  Object.assign(aire, { chart, plot, grid, thinned, logDomain, decadeTicks, decadeFormat, key, spread, TIP });
})((globalThis.aire ??= {}));
