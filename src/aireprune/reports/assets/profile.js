"use strict";
// What each layer keeps as the ratio of the whole model grows: a line per layer, or a row of a map where there are many.
(function (aire) {
  const LINES = 12; // layers drawn as lines

  // What the dotted diagonal of so many lines means, or the colours of a map.
  const legend = (count) =>
    count > LINES
      ? "The stronger its colour, the more of a layer stays"
      : "The dotted diagonal would be the same share of each";

  // What each layer keeps as the ratio of the whole model grows: {ratios, shares: [layer][ratio], names, mark: ratio or null}.
  function profileChart(read, label) {
    return aire.chart((width) => {
      const { ratios, shares, names, mark = null, chosen = -1 } = read();
      const x = {
        label: "states removed from the whole model (%) →",
        labelAnchor: "right",
        domain: [0, 100 * ratios.at(-1)],
      };
      const line = mark === null ? null : Plot.ruleX([100 * mark], { stroke: "var(--ink)", strokeDasharray: "3 3" });
      const data = shares.flatMap((row, i) =>
        row.map((share, r) => ({
          x: 100 * ratios[r],
          next: 100 * (ratios[r + 1] ?? ratios[r]),
          share: 100 * share,
          layer: names[i],
          i,
        })),
      );
      const tips = Plot.tip(
        data,
        Plot.pointer({
          x: "x",
          y: names.length > LINES ? (d) => d.i + 0.5 : "share",
          title: (d) => `${d.layer}\n${d.share.toFixed(0)} % kept at ${d.x.toFixed(0)} %`,
          ...aire.TIP,
        }),
      );
      if (names.length > LINES) {
        return aire.plot(width, {
          height: Math.max(220, Math.min(640, 40 + 8 * names.length)),
          x,
          y: { domain: [names.length, 0], label: "↓ layer, from the input on", ticks: 8, tickFormat: "d" },
          marks: [
            Plot.rect(data, {
              x1: "x",
              x2: "next",
              y1: "i",
              y2: (d) => d.i + 1,
              fill: "var(--aire)",
              fillOpacity: (d) => d.share / 100,
              inset: 0.3,
            }),
            line,
            tips,
          ],
        });
      }
      const wide = width > 560;
      const height = wide ? 360 : 280;
      const place = (share) => 22 + (1 - share) * (height - 58);
      const heights = aire.spread(
        shares.map((row) => place(row.at(-1))),
        16,
        22,
        height - 36,
      );
      const ink = (i) =>
        chosen === i
          ? "var(--aire)"
          : `color-mix(in oklab, var(--aire), var(--ink) ${Math.round((90 * i) / Math.max(names.length - 1, 1))}%)`;
      return aire.plot(width, {
        height,
        marginRight: wide ? 120 : 14,
        x,
        y: { domain: [0, 100], label: "↑ kept of the layer (%)", ticks: 5 },
        marks: [
          aire.grid(5),
          Plot.line(
            [
              [0, 100],
              [100, 0],
            ].map(([a, b]) => ({ a, b })),
            { x: "a", y: "b", stroke: "var(--quiet)", strokeDasharray: "1 4", clip: true },
          ),
          line,
          shares.map((_, i) =>
            Plot.line(
              data.filter((d) => d.i === i),
              { x: "x", y: "share", stroke: ink(i), strokeWidth: chosen === i ? 3.2 : 1.8 },
            ),
          ),
          wide
            ? names.map((name, i) =>
                Plot.text([name], {
                  x: 100 * ratios.at(-1),
                  y: 100 * (1 - (heights[i] - 22) / (height - 58)),
                  dx: 8,
                  textAnchor: "start",
                  text: () => (name.length > 16 ? `…${name.slice(-15)}` : name),
                  fill: ink(i),
                  fontWeight: chosen === i ? 700 : 400,
                }),
              )
            : null,
          tips,
        ],
      });
    }, label);
  }

  Object.assign(aire, { profileChart, profileLegend: legend });
})((globalThis.aire ??= {}));
