"use strict";
// A sweep: the metric against the ratio with intervals and safe ratios, what the layers keep, and the numbers as a table.
(function (aire) {
  const { h } = aire;
  const OWN = [
    "aire",
    "balanced",
    "balanced+calibrated",
    "aire+refit",
    "aire+calibrated",
    "last",
    "global-hinf",
    "uniform-hinf",
  ];
  const SPARE = 4; // further colours of page.css, v-0 on

  // The colour of every curve: its own, one of the spare ones, or a light one.
  function inks(curves) {
    let spare = 0;
    return new Map(
      curves.map(({ name, emphasised }) => {
        if (!emphasised) return [name, "var(--light)"];
        const own = OWN.indexOf(name);
        return [name, own >= 0 ? `var(--v-${name.replace("+", "-")})` : `var(--v-${spare++ % SPARE})`];
      }),
    );
  }

  function metricText(sweep, value) {
    return sweep.accuracy ? `${value.toFixed(1)} %` : value.toFixed(3);
  }

  // Metric against ratio. focus: a set of names that are drawn strongly; all emphasised ones if it is empty.
  function curvesChart(sweep, focus) {
    const colours = inks(sweep.curves);
    const data = sweep.curves.flatMap((curve) =>
      curve.points.map((point) => ({ ...point, name: curve.name, x: 100 * point.ratio, emphasised: curve.emphasised })),
    );
    const named = () =>
      focus.size
        ? sweep.curves.filter(({ name }) => focus.has(name))
        : sweep.curves.filter(({ emphasised }) => emphasised);
    return aire.chart((width) => {
      const shown = named();
      const strong = new Set(shown.map(({ name }) => name));
      const wide = width > 640;
      const height = wide ? 440 : 320;
      const y = metricScale(sweep, data, height);
      const ink = (name) =>
        strong.has(name) ? (colours.get(name) === "var(--light)" ? "var(--ink)" : colours.get(name)) : "var(--light)";
      const front = [...shown].reverse();
      const ends = shown.map((curve) => ({ name: curve.name, point: curve.points.at(-1) }));
      const heights = aire.spread(
        ends.map(({ point }) => y.apply(point.test)),
        17,
        26,
        height - 40,
      );
      return aire.plot(width, {
        height,
        marginLeft: 50,
        marginRight: wide ? 160 : 16,
        x: { label: "states removed (%) →", labelAnchor: "right", domain: [0, d3.max(data, (d) => d.x)] },
        y: { ...y.options, label: sweep.accuracy ? "↑ test accuracy (%)" : `↑ ${sweep.metric} on test data` },
        marks: [
          aire.grid(y.options.ticks),
          y.chance !== null ? Plot.ruleY([y.chance], { stroke: "var(--quiet)", strokeDasharray: "5 4" }) : null,
          y.chance !== null
            ? Plot.text([y.chance], {
                y: (d) => d,
                frameAnchor: "left",
                textAnchor: "start",
                dy: -7,
                dx: 4,
                text: () => (sweep.accuracy ? "always one answer" : "every byte alike"),
                fill: "var(--quiet)",
              })
            : null,
          sweep.reported
            ? Plot.ruleX([sweep.reported[0]], { stroke: "var(--quiet)", strokeDasharray: "1 4", strokeWidth: 1.5 })
            : null,
          sweep.reported
            ? Plot.text([sweep.reported[0]], {
                x: (d) => d,
                frameAnchor: "top",
                textAnchor: "end",
                dx: -6,
                text: () => `paper: ${sweep.reported[0]} %`,
                fill: "var(--quiet)",
                stroke: "var(--paper)",
                strokeWidth: 5,
              })
            : null,
          Plot.line(
            data.filter((d) => !strong.has(d.name)),
            { x: "x", y: "test", z: "name", stroke: "var(--light)", strokeWidth: 1.2 },
          ),
          front.map((curve) =>
            intervals(
              data.filter((d) => d.name === curve.name),
              ink(curve.name),
              curve.name === "aire" || shown.length === 1,
            ),
          ),
          front.map((curve) =>
            Plot.line(
              data.filter((d) => d.name === curve.name),
              { x: "x", y: "test", stroke: ink(curve.name), strokeWidth: curve.name === "aire" ? 3.4 : 1.8 },
            ),
          ),
          front.map((curve) =>
            Plot.dot(
              data.filter((d) => d.name === curve.name && d.ratio === curve.safe),
              {
                x: "x",
                y: "test",
                stroke: ink(curve.name),
                fill: "var(--paper)",
                strokeWidth: curve.name === "aire" ? 2.6 : 1.8,
                r: curve.name === "aire" ? 6 : 4.5,
              },
            ),
          ),
          wide
            ? ends.map(({ name, point }, i) =>
                Plot.text([point], {
                  x: 100 * point.ratio,
                  y: () => y.invert(heights[i]),
                  dx: 12,
                  textAnchor: "start",
                  text: () => name,
                  fill: ink(name),
                  fontWeight: name === "aire" ? 700 : 500,
                  fontSize: 13,
                }),
              )
            : null,
          Plot.tip(
            data.filter((d) => strong.has(d.name)),
            Plot.pointer({ x: "x", y: "test", title: (d) => tip(sweep, d), ...aire.TIP }),
          ),
        ],
      });
    }, `${sweep.metric} of every variant against the share of states removed`);
  }

  function intervals(points, ink, band) {
    return band
      ? Plot.areaY(points, { x: "x", y1: "low", y2: "high", fill: ink, fillOpacity: 0.13 })
      : Plot.ruleX(points, { x: "x", y1: "low", y2: "high", stroke: ink, strokeOpacity: 0.35 });
  }

  function tip(sweep, d) {
    const lines = [
      d.name,
      `${d.x.toFixed(0)} % removed: ${metricText(sweep, d.test)}`,
      `95 %: ${metricText(sweep, d.low)} to ${metricText(sweep, d.high)}`,
    ];
    if (d.sd !== null) lines.push(`over seeds ± ${metricText(sweep, d.sd)}`);
    return lines.join("\n");
  }

  // A vertical axis that fits the numbers; logarithmic where a destroyed language model would flatten all others.
  function metricScale(sweep, data, height) {
    let low = d3.min(data, (d) => d.low);
    let high = d3.max(data, (d) => d.high);
    const log = !sweep.accuracy && low > 0 && high > 2 * low;
    const room = 0.05 * (high - low) || 1;
    const near = sweep.chance !== null && sweep.chance <= high && sweep.chance >= low - (high - low) / 3;
    if (near) low = Math.min(low, sweep.chance);
    const domain = log ? [low / 1.05, high * 1.05] : [low - room, high + room];
    const options = {
      type: log ? "log" : "linear",
      domain,
      ticks: log ? [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20, 40].filter((t) => t >= domain[0] && t <= domain[1]) : 6,
      tickFormat: log ? aire.decadeFormat : undefined,
    };
    const scale = Plot.scale({ y: { type: options.type, domain, range: [height - 36, 22] } });
    return { options, chance: near ? sweep.chance : null, apply: scale.apply, invert: scale.invert };
  }

  // Buttons that bring curves to the front; with none pressed, the emphasised ones are.
  function legend(sweep, focus, redraw) {
    const colours = inks(sweep.curves);
    return h(
      "div",
      { class: "legend", role: "group", "aria-label": "Variants to bring to the front" },
      sweep.curves.map(({ name }) => {
        const button = h(
          "button",
          { type: "button", "aria-pressed": "false", style: `--swatch:${colours.get(name)}` },
          h("i"),
          name,
        );
        button.addEventListener("click", () => {
          focus.has(name) ? focus.delete(name) : focus.add(name);
          button.setAttribute("aria-pressed", String(focus.has(name)));
          redraw();
        });
        return button;
      }),
    );
  }

  function safeTable(sweep) {
    const rows = sweep.curves.map((curve) => {
      const at = curve.points.find((point) => point.ratio === curve.safe);
      return h(
        "tr",
        { class: curve.name === "aire" ? "strong" : null },
        h("th", { scope: "row" }, curve.name),
        ...[
          `${(100 * curve.safe).toFixed(0)} %`,
          metricText(sweep, at.test),
          `${metricText(sweep, at.low)} to ${metricText(sweep, at.high)}`,
          at.p < 0.001 ? "< 0.001" : at.p.toPrecision(2),
          aire.percent(1 - at.parameters / sweep.full.parameters),
        ].map((cell) => h("td", {}, cell)),
      );
    });
    const heads = ["variant", "safe ratio", "test", "95 % interval", "p against the full model", "parameters saved"];
    return h(
      "div",
      { class: "scroll", tabindex: "0" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map((head) => h("th", { scope: "col" }, head)),
          ),
        ),
        h("tbody", {}, rows),
      ),
    );
  }

  function sections(sweep) {
    const focus = new Set();
    const curves = curvesChart(sweep, focus);
    const light = sweep.curves.some(({ emphasised }) => !emphasised)
      ? " Light lines are the other variants; press a name to bring it to the front."
      : "";
    const paper = sweep.reported
      ? ` On the paper's larger model aire is safe at ${sweep.reported[0]} %, where it loses ${sweep.reported[1].toFixed(1)} points.`
      : "";
    const lead = `Rings mark the safe ratio: the largest that costs at most ${sweep.drop} ${sweep.accuracy ? "points" : "% more bits"} on validation data, with every smaller one within the bound too. The curves are test data that no choice has seen, with 95 % intervals.`;
    const found = [
      aire.section(
        "curves",
        `${sweep.accuracy ? "Accuracy" : "Bits per byte"} against ratio`,
        lead + light + paper,
        legend(sweep, focus, () => curves.redraw()),
        aire.figure("", "", curves),
        safeTable(sweep),
      ),
    ];
    const profiled = sweep.curves.filter((curve) => curve.points.some((point) => point.kept.length));
    if (profiled.length) {
      const pick = h(
        "select",
        { id: "profiled" },
        profiled.map(({ name }) => h("option", { value: name, selected: name === "aire" }, name)),
      );
      const names = aire.shortNames(sweep.layers);
      const profile = aire.profileChart(() => {
        const curve = profiled.find(({ name }) => name === pick.value);
        return {
          ratios: curve.points.map((p) => p.ratio),
          shares: sweep.layers.map((_, i) => curve.points.map((p) => (p.kept.length ? p.kept[i] : 1))),
          names,
          mark: curve.safe,
        };
      }, "Share of states kept in each layer against the ratio of the whole model");
      pick.addEventListener("change", () => profile.redraw());
      found.push(
        aire.section(
          "profile",
          "What each layer keeps",
          `One ranking over all layers takes more from some layers than from others. ${aire.profileLegend(names.length)}; the dashed line is the safe ratio.`,
          h("label", { class: "pick", for: "profiled" }, "Variant ", pick),
          aire.figure("", "", profile),
        ),
      );
    }
    return found;
  }

  Object.assign(aire, { sweepSections: sections });
})((globalThis.aire ??= {}));
