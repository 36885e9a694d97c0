"use strict";
// Charts of one layer: its states by rank, the energy they hold, and its responses.
(function (aire) {
  const { TIP, chart, plot, grid, thinned, logDomain, decadeTicks, decadeFormat } = aire;

  // As many ticks as there is room for numbers up to n.
  function rankTicks(n, width) {
    return Math.min(n, Math.floor(width / (24 + 14 * String(n).length)));
  }

  // Scores of a layer, best first: {values by rank, kept by rank or null, threshold or null, unit}.
  function rankChart(read, label) {
    return chart((width) => {
      const { values, kept, threshold, unit } = read();
      const ink = (d) => (kept === null ? "var(--quiet)" : d.kept ? "var(--aire)" : "var(--removed)");
      const domain = logDomain(Array.from(values));
      const data = thinned(values.length).map((i) => ({
        rank: i + 1,
        value: Math.min(Math.max(values[i], domain[0]), domain[1]),
        real: values[i],
        kept: kept?.[i],
      }));
      const few = values.length <= 160;
      const line = few
        ? Plot.ruleX(data, {
            x: "rank",
            y1: domain[0],
            y2: "value",
            stroke: ink,
            strokeWidth: Math.min(6, (0.66 * width) / data.length),
            strokeLinecap: "butt",
          })
        : Plot.dot(data, { x: "rank", y: "value", r: 1.6, fill: ink });
      const shown = threshold != null && threshold > 0 && Number.isFinite(threshold);
      return plot(width, {
        x: {
          label: "rank →",
          labelAnchor: "right",
          ticks: rankTicks(values.length, width),
          tickFormat: "d",
          domain: [0.2, values.length + 0.8],
          insetLeft: 4,
        },
        y: {
          type: "log",
          domain: shown ? [Math.min(domain[0], threshold / 1.5), domain[1]] : domain,
          ticks: decadeTicks(domain),
          tickFormat: decadeFormat,
          label: `↑ ${unit}`,
        },
        marks: [
          grid(decadeTicks(domain)),
          line,
          shown ? Plot.ruleY([threshold], { stroke: "var(--ink)", strokeDasharray: "4 3" }) : null,
          shown
            ? Plot.text([threshold], {
                y: (d) => d,
                frameAnchor: "right",
                textAnchor: "end",
                dy: -7,
                text: (d) => `threshold ${aire.number(d)}`,
                fill: "var(--ink)",
                stroke: "var(--paper)",
                strokeWidth: 4,
              })
            : null,
          Plot.tip(
            data,
            Plot.pointerX({
              x: "rank",
              y: "value",
              title: (d) =>
                `rank ${d.rank}\n${unit} ${aire.number(d.real, 4)}${kept === null ? "" : d.kept ? "\nkept" : "\nremoved"}`,
              ...TIP,
            }),
          ),
        ],
      });
    }, label);
  }

  // The share of a layer's energy that its best states hold: {shares by rank, count, share} with what is kept marked.
  function cumulativeChart(read, label) {
    return chart((width) => {
      const { shares, count, share, what } = read();
      const data = thinned(shares.length).map((i) => ({ count: i + 1, share: 100 * shares[i] }));
      return plot(width, {
        x: {
          label: "states →",
          labelAnchor: "right",
          ticks: rankTicks(shares.length, width),
          tickFormat: "d",
          domain: [0, shares.length],
        },
        y: { domain: [0, 100], ticks: 5, label: `↑ ${what} held (%)` },
        marks: [
          grid(5),
          Plot.areaY([{ count: 0, share: 0 }, ...data], {
            x: "count",
            y: "share",
            fill: "var(--aire)",
            fillOpacity: 0.1,
          }),
          Plot.line([{ count: 0, share: 0 }, ...data], {
            x: "count",
            y: "share",
            stroke: "var(--quiet)",
            strokeWidth: 1.5,
          }),
          ...(count === null
            ? []
            : [
                Plot.ruleX([count], { stroke: "var(--aire)", strokeDasharray: "3 3" }),
                Plot.dot([{ count, share: 100 * share }], {
                  x: "count",
                  y: "share",
                  fill: "var(--aire)",
                  r: 5,
                  stroke: "var(--paper)",
                  strokeWidth: 2,
                }),
                Plot.text([{ count, share: 100 * share }], {
                  x: "count",
                  y: "share",
                  text: () => `${count} kept: ${aire.percent(share)}`,
                  dy: count > 0.6 * shares.length ? 20 : 18,
                  textAnchor: count > 0.6 * shares.length ? "end" : "start",
                  dx: count > 0.6 * shares.length ? -6 : 8,
                  fontWeight: 600,
                  fill: "var(--ink)",
                  stroke: "var(--paper)",
                  strokeWidth: 4,
                }),
              ]),
          Plot.tip(
            data,
            Plot.pointerX({
              x: "count",
              y: "share",
              title: (d) => `${d.count} best states\n${d.share.toFixed(2)} %`,
              ...TIP,
            }),
          ),
        ],
      });
    }, label);
  }

  const PARTS = [
    { name: "full layer", stroke: "var(--ink)", width: 3, opacity: 0.3 },
    { name: "after pruning", stroke: "var(--aire)", width: 1.9, opacity: 1 },
    { name: "difference", stroke: "var(--error)", width: 1.4, opacity: 1 },
  ];

  // Full, reduced and error over steps or frequencies. read: {x, lines (3 arrays), log, label, unit, bounds: [{value, name}], peak}.
  function responseChart(read, label) {
    return chart((width) => {
      const { x, lines, xLabel, yLabel, bounds = [], peak = null } = read();
      const count = x.length;
      const values = PARTS.flatMap((part, p) =>
        Array.from(x, (at, i) => ({ x: at, y: lines[p * count + i], part: part.name, p })),
      );
      const domain = logDomain([...values.map((d) => d.y), ...bounds.map((bound) => bound.value)], 5);
      const inside = values.filter((d) => d.y >= domain[0]);
      return plot(width, {
        x: {
          type: "log",
          label: xLabel,
          labelAnchor: "right",
          ticks: decadeTicks(d3.extent(x)),
          tickFormat: decadeFormat,
        },
        y: { type: "log", domain, ticks: decadeTicks(domain), tickFormat: decadeFormat, label: yLabel },
        marks: [
          grid(decadeTicks(domain)),
          bounds.map((bound) => [
            Plot.ruleY([bound.value], {
              stroke: "var(--error)",
              strokeDasharray: bound.main ? "5 3" : "1 4",
              strokeWidth: bound.main ? 1.5 : 1,
            }),
            Plot.text([bound.value], {
              y: (d) => d,
              frameAnchor: "left",
              textAnchor: "start",
              dy: -9,
              dx: 4,
              text: () => bound.name,
              fill: "var(--error)",
              stroke: "var(--paper)",
              strokeWidth: 4,
            }),
          ]),
          [2, 0, 1].map((p) =>
            Plot.line(
              inside.filter((d) => d.p === p),
              { x: "x", y: "y", stroke: PARTS[p].stroke, strokeWidth: PARTS[p].width, strokeOpacity: PARTS[p].opacity },
            ),
          ),
          peak
            ? Plot.dot([peak], { x: "x", y: "y", stroke: "var(--error)", fill: "var(--paper)", strokeWidth: 2, r: 4.5 })
            : null,
          Plot.tip(
            inside,
            Plot.pointer({
              x: "x",
              y: "y",
              title: (d) => `${d.part}\n${aire.number(d.y, 4)} at ${aire.number(d.x, 3)}`,
              ...TIP,
            }),
          ),
        ],
      });
    }, label);
  }

  const responseKey = () => aire.key(PARTS);

  Object.assign(aire, { rankChart, cumulativeChart, responseChart, responseKey });
})((globalThis.aire ??= {}));
