"use strict";
// What is to be seen of a model: the plan, the ranking behind it, and the numbers that follow. Every part of the page reads it.
(function (aire) {
  const CRITERIA = {
    energy: "impulse-response energy",
    "pair-energy": "energy of the conjugate pair",
    peak: "squared H∞ norm",
    magnitude: "squared magnitude",
    random: "random numbers",
    hankel: "squared Hankel singular values",
    "energy-published": "energy as the authors' code computes it",
    "peak-published": "H∞ norm as the authors' code computes it",
  };

  // What the parts of the page read. In a report the plan is fixed; with controls `decide` changes it.
  function viewOf(found) {
    const { model } = found;
    const watchers = [];
    const view = {
      model,
      chosen: 0,
      scale: aire.radiusScale(model.layers),
      responses: !found.explore,
      watch: (then) => watchers.push(then),
      notify: () => watchers.forEach((then) => then()),
      choose: (number) => {
        view.chosen = number;
        view.notify();
      },
      raw: (layer) => aire.raw(layer, view.criterion),
      held: (i) => aire.energyShare(view.heldBy()[i], view.kept[i]),
      error: (i) =>
        found.explore ? exactError(model.layers[i], view) : (model.layers[i].certificate?.relative_h2 ?? null),
      plan: () => aire.planOf(model.plan, view.settings, view, view.heldBy()),
      heldBy: () => model.layers.map((layer) => (view.renewed ? (layer.hankel ?? layer.energy) : layer.energy)),
      parameters: () => parameters(model, view.kept),
    };
    view.rank = (settings) => {
      view.method = model.methods.find(({ name }) => name === settings.method) ?? model.methods[0];
      view.criterion =
        settings.reduce === "balanced" && model.layers.every((layer) => layer.hankel)
          ? "hankel"
          : view.method.criterion;
      view.criterionText = CRITERIA[view.criterion] ?? view.criterion;
      view.renewed = settings.reduce === "balanced";
      view.rule = aire.ruleOf(model, view.method, settings);
      view.ranking = aire.rank(aire.pool(model, view.criterion), view.rule);
      view.places = aire.places(view.ranking);
    };
    view.decide = (settings) => {
      const before = view.settings ?? {};
      view.settings = settings;
      if (["method", "reduce", "epsilon"].some((name) => before[name] !== settings[name])) view.rank(settings);
      view.rule = { ...view.rule, roundTo: settings.roundTo };
      Object.assign(view, aire.choose(view.ranking, settings, view.rule));
      view.notify();
    };
    const plan = model.plan;
    const settings = {
      method: plan?.method ?? "aire",
      reduce: plan?.reduce ?? "truncate",
      ratio: plan?.ratio ?? 0,
      threshold: plan?.by_threshold ? plan.threshold : null,
      minStates: plan?.min_states ?? 1,
      epsilon: plan?.epsilon ?? 0,
      roundTo: plan?.round_to ?? 1,
    };
    view.planned = plan !== null;
    view.settings = settings;
    view.rank(settings);
    if (found.explore) Object.assign(view, aire.choose(view.ranking, settings, view.rule));
    else
      Object.assign(view, {
        kept: model.layers.map((layer) => layer.kept),
        threshold: plan && view.method.name === plan.method ? plan.threshold : null,
      });
    return view;
  }

  // sqrt of the energy that removed states hold together, over that of all; null where the coupling is not in the page.
  function exactError({ coupling, states, number }, view) {
    if (!coupling || view.settings.reduce !== "truncate") return null;
    const kept = aire.marked(states, view.kept[number]);
    let all = 0;
    let gone = 0;
    for (let i = 0; i < states; i++) {
      for (let j = 0; j < states; j++) {
        const both = coupling[i * states + j];
        all += both;
        if (!kept[i] && !kept[j]) gone += both;
      }
    }
    return all > 0 ? Math.sqrt(Math.max(gone, 0) / all) : 0;
  }

  // Parameters of the model once only `kept` is stored: as long as the longest row, or packed.
  function parameters(model, kept) {
    if (model.parameters === null) return null;
    const sizes = model.layers.map(({ states, rows, groups }, i) => {
      if (rows > 1 && model.packed) return kept[i].length / rows;
      if (rows === 1) return kept[i].length / groups;
      const lengths = new Uint32Array(rows);
      for (const state of kept[i]) lengths[Math.floor(state / (states / rows))] += 1;
      return d3.max(lengths);
    });
    if (model.plan?.layout === "padded") sizes.fill(d3.max(sizes));
    const removed = d3.sum(
      model.layers,
      (layer, i) => layer.per_size * (layer.states / Math.max(layer.rows, layer.groups) - sizes[i]),
    );
    return Math.round(model.parameters - removed);
  }

  Object.assign(aire, { viewOf });
})((globalThis.aire ??= {}));
