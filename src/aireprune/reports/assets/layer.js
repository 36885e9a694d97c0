"use strict";
// One layer in full: its poles, its states by score, the energy they hold, Hankel values and responses.
(function (aire) {
  const { h } = aire;

  // view: see page.js. The element's redraw() follows a change of the plan or of the layer that is chosen.
  function detail(view) {
    const disc = poleView(view);
    const charts = [];
    const own = (draw, ...rest) => {
      const made = draw(...rest);
      charts.push(made);
      return made;
    };
    const title = h("h3", { id: "layer-name" });
    const facts = h("p", { class: "lead" });
    const parts = h("div", { class: "charts" });
    const place = h("div", { class: "layer" }, picker(view), title, facts, h("div", { class: "split" }, disc, parts));
    let built = null;
    place.redraw = () => {
      const layer = view.model.layers[view.chosen];
      title.textContent = layer.name;
      facts.textContent = describe(view, layer);
      const kind = [Boolean(layer.hankel), Boolean(layer.response), view.method.name, view.criterion].join();
      if (built !== kind) {
        built = kind;
        charts.length = 0;
        parts.replaceChildren(...figures(view, own));
      }
      disc.redraw();
      for (const one of charts) one.redraw();
    };
    return place;
  }

  function picker(view) {
    const select = h(
      "select",
      { id: "layer-pick" },
      view.model.layers.map((layer, i) => h("option", { value: i }, layer.name)),
    );
    const step = (by) => view.choose((view.chosen + by + view.model.layers.length) % view.model.layers.length);
    select.addEventListener("change", () => view.choose(Number(select.value)));
    view.watch(() => (select.value = String(view.chosen)));
    const button = (text, label, by) =>
      h("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => step(by) }, text);
    return h(
      "div",
      { class: "picker" },
      h("label", { for: "layer-pick" }, "Layer "),
      select,
      button("←", "Previous layer", -1),
      button("→", "Next layer", 1),
    );
  }

  function describe(view, layer) {
    const kept = view.kept[layer.number].length;
    const held = aire.percent(view.held(layer.number));
    const stays = view.planned
      ? `${aire.whole.format(kept)} of ${aire.whole.format(layer.counted)} states stay, which hold ${held} of ${view.renewed ? "its squared Hankel values" : "its energy"}.`
      : `${aire.whole.format(layer.counted)} states.`;
    const modes =
      layer.modes > 1 ? ` A state is ${aire.whole.format(layer.modes)} modes; the pole of the slowest is shown.` : "";
    const error = view.error(layer.number);
    return stays + (error === null ? "" : ` Exact H2 error: ${aire.percent(error)} of the layer's norm.`) + modes;
  }

  // Poles with a description of the one under the pointer, or of the one that arrow keys have reached.
  function poleView(view) {
    const canvas = aire.discCanvas(
      {
        class: "disc",
        tabindex: "0",
        role: "img",
        "aria-label": "Poles of the layer. Arrow keys go through the states by rank.",
      },
      () => place.redraw(),
    );
    const told = h("dl", { class: "told", "aria-live": "polite" });
    const hint = h("p", { class: "hint" });
    let chosen = -1;
    const layer = () => view.model.layers[view.chosen];
    const show = (state) => {
      chosen = state;
      told.replaceChildren(
        ...(state < 0
          ? [h("dt", {}, "Point at a state, or tap it, to read its numbers.")]
          : lines(view, layer(), state).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      );
      place.redraw();
    };
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return aire.nearestPole(canvas, layer(), view.scale, event.clientX - box.left, event.clientY - box.top);
    };
    canvas.addEventListener("pointermove", (event) => {
      const found = at(event);
      if (found !== chosen && found >= 0) show(found);
    });
    canvas.addEventListener("pointerdown", (event) => show(at(event)));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const { rank } = view.places[view.chosen];
      const order = aire.order(rank.map((r) => -r));
      const now = chosen < 0 ? (step > 0 ? -1 : 0) : order.indexOf(chosen);
      show(order[(now + step + order.length) % order.length]);
    });
    const place = h("div", { class: "poles" }, canvas, poleKey(view), hint, told);
    let last = -1;
    place.redraw = () => {
      if (last !== view.chosen) {
        last = view.chosen;
        return show(-1);
      }
      hint.textContent = layer().real
        ? "Across: half-life in steps, on a logarithmic scale. Up: energy."
        : "The rim is the unit circle. The radius is the half-life on a logarithmic scale, the angle is arg λ.";
      aire.drawDisc(canvas, layer(), view.scale, {
        kept: aire.marked(layer().states, view.renewed ? [] : view.kept[view.chosen]),
        chosen,
        renewed: view.renewed,
        labelled: true,
      });
    };
    return place;
  }

  function poleKey(view) {
    const place = h("div", { class: "key dots" });
    view.watch(() => {
      const fresh = view.model.layers[view.chosen].after;
      const before = fresh ? "states before" : "states before; new ones take their place";
      const renewed = [["ring", before], ...(fresh ? [["dot", "new states"]] : [])];
      const planned = view.planned
        ? [
            ["dot", "kept"],
            ["ring", "removed"],
          ]
        : [];
      const items = view.renewed ? renewed : planned;
      place.replaceChildren(
        ...items.map(([kind, name]) => h("span", {}, h("i", { class: kind }), name)),
        h("span", {}, "size: energy"),
      );
    });
    return place;
  }

  function lines(view, layer, state) {
    const { score, rank } = view.places[layer.number];
    const kept = aire.marked(layer.states, view.kept[layer.number])[state];
    const found = [
      ["state", `${state}${view.planned && !view.renewed ? (kept ? ", kept" : ", removed") : ""}`],
      ["λ", aire.pole(layer.logRadius[state], layer.angle[state])],
      ["half-life", aire.steps(layer.half[state])],
      ["energy", Number.isNaN(layer.energy[state]) ? "infinite" : aire.number(layer.energy[state], 4)],
    ];
    if (view.renewed) return found; // ranks are those of the new states
    return [
      ...found,
      [view.method.prefix ? "prefix score" : "score", aire.number(score[state], 4)],
      ["rank", `${aire.whole.format(rank[state])} of ${aire.whole.format(layer.states)}`],
    ];
  }

  function figures(view, own) {
    const layer = () => view.model.layers[view.chosen];
    const found = [
      aire.figure(
        "Raw score",
        `${view.criterionText}, best first`,
        own(aire.rankChart, () => byRank(view, layer(), view.raw(layer())), "Raw scores of the states, best first"),
      ),
      aire.figure(
        view.method.prefix ? "Prefix score" : "Compared score",
        "compared over all layers",
        own(
          aire.rankChart,
          () => ({
            ...byRank(view, layer(), view.places[view.chosen].score),
            threshold: view.threshold,
            unit: "score",
          }),
          "Scores that are compared over layers, with the threshold",
        ),
      ),
      aire.figure(
        view.renewed ? "Hankel values held" : "Energy held",
        "by the best states",
        own(aire.cumulativeChart, () => cumulative(view, layer()), "Cumulative energy of the states"),
      ),
    ];
    if (layer().hankel && view.criterion !== "hankel") {
      found.push(
        aire.figure(
          "Hankel singular values",
          "by which balanced truncation ranks",
          own(aire.rankChart, () => hankel(layer()), "Hankel singular values, largest first"),
        ),
      );
    }
    if (layer().response && view.responses) {
      found.push(
        aire.figure(
          "Impulse response",
          "norm of the output after an impulse",
          aire.responseKey(),
          own(aire.responseChart, () => impulse(layer()), "Impulse responses before and after pruning"),
        ),
        aire.figure(
          "Frequency response",
          "largest gain; the ring is the worst case",
          aire.responseKey(),
          own(
            aire.responseChart,
            () => frequency(layer()),
            "Frequency responses before and after pruning, with the bound",
          ),
        ),
      );
    }
    return found;
  }

  function byRank(view, layer, values) {
    const { rank } = view.places[layer.number];
    const order = aire.order(rank.map((r) => -r));
    const marks = aire.marked(layer.states, view.kept[layer.number]);
    return {
      values: Float64Array.from(order, (i) => values[i]),
      kept: Uint8Array.from(order, (i) => marks[i]),
      threshold: null,
      unit: view.criterion === "hankel" ? "σ²" : view.criterion,
    };
  }

  function cumulative(view, layer) {
    const held = view.heldBy()[layer.number];
    const numbers = held.map((value) => (Number.isNaN(value) ? 0 : value));
    const total = aire.sum(numbers) || 1;
    let run = 0;
    const shares = Float64Array.from(aire.order(numbers), (i) => (run += numbers[i]) / total);
    const kept = view.kept[layer.number];
    return {
      shares,
      count: view.planned ? kept.length : null,
      share: aire.energyShare(held, kept),
      what: view.renewed ? "σ²" : "energy",
    };
  }

  function hankel(layer) {
    const order = aire.order(layer.hankel);
    return {
      values: Float64Array.from(order, (i) => Math.sqrt(layer.hankel[i])),
      kept: null,
      threshold: null,
      unit: "σ",
    };
  }

  function impulse({ response }) {
    return {
      x: response.steps.map((step) => step + 1),
      lines: response.impulse,
      xLabel: "steps, counted from 1 →",
      yLabel: "↑ norm",
    };
  }

  function frequency({ response, certificate: c }) {
    const bounds = [];
    if (c && Number.isFinite(c.bound) && c.bound > 0) {
      const best = { AIRE: c.aire_bound, LAST: c.last_bound, balanced: c.balanced_bound };
      const name = Object.keys(best).find((key) => best[key] === c.bound) ?? "";
      bounds.push({ value: c.bound, name: `proved: at most ${aire.number(c.bound)} (${name})`, main: true });
    }
    const peak = c?.hinf ? { x: Math.max(c.hinf_frequency, response.omega[0]), y: c.hinf } : null;
    return { x: response.omega, lines: response.gain, xLabel: "radians per step →", yLabel: "↑ gain", bounds, peak };
  }

  Object.assign(aire, { layerDetail: detail });
})((globalThis.aire ??= {}));
