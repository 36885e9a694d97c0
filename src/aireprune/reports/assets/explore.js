"use strict";
// Controls that change the plan: every move is decided on as Python decides, and can be typed as a command or saved as a plan.
(function (aire) {
  const { h } = aire;
  const REDUCTIONS = {
    truncate: "they stay as they are",
    refit: "they get the best readout",
    balanced: "new states take their place",
  };

  // view: see page.js. Gives the panel; view.decide(settings) is called on every change.
  function panel(view) {
    const { model } = view;
    const settings = view.settings;
    const balanced = model.layers.every((layer) => layer.hankel);
    const linear = model.layers.some((layer) => layer.hankel);
    const method = h(
      "select",
      { id: "method" },
      model.methods.map(({ name }) => h("option", { value: name, selected: name === settings.method }, name)),
    );
    const told = h("p", { class: "hint" });
    const reduce = h(
      "select",
      { id: "reduce" },
      Object.entries(REDUCTIONS).map(([name, what]) =>
        h(
          "option",
          { value: name, disabled: name === "balanced" ? !balanced : name === "refit" && !linear },
          `${name}: ${what}`,
        ),
      ),
    );
    const by = ["ratio", "threshold"].map((name) =>
      h("input", { type: "radio", name: "by", id: `by-${name}`, value: name, checked: name === "ratio" }),
    );
    const ratio = h("input", {
      type: "range",
      id: "ratio",
      min: 0,
      max: 1,
      step: 0.01,
      value: settings.ratio,
      "aria-label": "Share of states to remove",
    });
    const ratioNumber = h("input", {
      type: "number",
      id: "ratio-number",
      min: 0,
      max: 1,
      step: "any",
      value: settings.ratio,
      "aria-label": "Share of states to remove, as a number",
    });
    const threshold = h("input", {
      type: "number",
      id: "threshold",
      min: 0,
      step: "any",
      value: "",
      placeholder: "score",
      "aria-label": "Threshold",
    });
    const least = h("input", { type: "number", id: "min-states", min: 0, step: 1, value: settings.minStates });
    const epsilon = h("input", { type: "number", id: "epsilon", min: 0, step: "any", value: settings.epsilon });
    const round = h("input", { type: "number", id: "round-to", min: 1, step: 1, value: settings.roundTo });
    const problem = h("p", { class: "problem", role: "alert" });

    function read() {
      const chosen = model.methods.find(({ name }) => name === method.value);
      const uniform = chosen.scope === "uniform";
      by[1].disabled = uniform;
      if (by[1].disabled) by[0].checked = true;
      const free = [...reduce.options].find(({ value }) => value === "balanced");
      free.disabled = !balanced || method.value !== "aire";
      if (free.disabled && reduce.value === "balanced") reduce.value = "truncate";
      epsilon.disabled = !chosen.prefix;
      threshold.disabled = !by[1].checked;
      ratio.disabled = ratioNumber.disabled = by[1].checked;
      told.textContent = chosen.summary;
      return {
        method: method.value,
        reduce: reduce.value,
        ratio: Number(ratioNumber.value),
        threshold: by[1].checked ? (threshold.value === "" ? NaN : Number(threshold.value)) : null,
        minStates: Number(least.value),
        epsilon: chosen.prefix ? Number(epsilon.value) : 0,
        roundTo: Number(round.value),
      };
    }

    // What Python would refuse, or null.
    function refusal(found) {
      if (!(found.ratio >= 0 && found.ratio <= 1)) return "The ratio is the share of states to remove, from 0 to 1.";
      if (found.threshold !== null && !(found.threshold >= 0)) return "The threshold is a score, 0 or more.";
      if (!(Number.isInteger(found.minStates) && found.minStates >= 0))
        return "At least 0 states, a whole number, stay in a layer.";
      if (!(found.epsilon >= 0 && Number.isFinite(found.epsilon))) return "Epsilon is a number, 0 or more.";
      if (!(Number.isInteger(found.roundTo) && found.roundTo >= 1))
        return "Counts are rounded up to a multiple of 1 or more.";
      return null;
    }

    let waiting = false;
    function changed() {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        const found = read();
        problem.textContent = refusal(found) ?? "";
        if (!problem.textContent) view.decide(found);
      });
    }

    ratio.addEventListener("input", () => (ratioNumber.value = ratio.value));
    ratioNumber.addEventListener("input", () => (ratio.value = ratioNumber.value));
    by[1].addEventListener("change", () => {
      if (threshold.value === "" && Number.isFinite(view.threshold))
        threshold.value = String(Number(view.threshold.toPrecision(3)));
    });
    const form = h(
      "form",
      {
        class: "controls",
        "aria-label": "Plan",
        oninput: changed,
        onchange: changed,
        onsubmit: (event) => event.preventDefault(),
      },
      h(
        "fieldset",
        { class: "amount" },
        h("legend", {}, "How much goes"),
        h("div", { class: "row" }, h("label", {}, by[0], " ratio"), ratioNumber),
        ratio,
        h("div", { class: "row" }, h("label", {}, by[1], " threshold"), threshold),
      ),
      h("label", { for: "method" }, "Method"),
      method,
      told,
      h("label", { for: "reduce" }, "What becomes of the others"),
      reduce,
      h(
        "div",
        { class: "trio" },
        h("div", {}, h("label", { for: "min-states" }, "Least per layer"), least),
        h("div", {}, h("label", { for: "epsilon" }, "Epsilon"), epsilon),
        h("div", {}, h("label", { for: "round-to" }, "Round up to"), round),
      ),
      problem,
    );
    read();
    return h("aside", { class: "panel" }, outcome(view), form, taking(view));
  }

  // What the plan comes to, in numbers.
  function outcome(view) {
    const states = h("b");
    const rest = h("span");
    view.watch(() => {
      const total = d3.sum(view.model.layers, (layer) => layer.counted);
      const kept = d3.sum(view.kept, (list) => list.length);
      states.textContent = `${aire.whole.format(kept)} of ${aire.whole.format(total)} states stay`;
      const parameters = view.parameters();
      const errors = view.model.layers.map((_, i) => view.error(i)).filter((error) => error !== null);
      const lines = [`${aire.percent(1 - kept / Math.max(total, 1))} removed`];
      if (parameters !== null)
        lines.push(`${aire.whole.format(view.model.parameters)} → ${aire.whole.format(parameters)} parameters`);
      if (errors.length)
        lines.push(`H2 error of a layer: ${aire.percent(d3.min(errors))} to ${aire.percent(d3.max(errors))}`);
      rest.replaceChildren(...lines.map((line) => h("span", {}, line)));
    });
    return h("p", { class: "outcome", "aria-live": "polite" }, states, rest);
  }

  // The command to type, and the plan to save.
  function taking(view) {
    const line = aire.codeLine("");
    const code = line.querySelector("code");
    const text = () => aire.planText(view.plan());
    view.watch(() => aire.setCommand(code, aire.command(view.plan(), view.model.plan.source ?? view.model.name)));
    const save = h(
      "button",
      { type: "button", class: "main", id: "download", onclick: () => aire.download("plan.json", text()) },
      "Download plan.json",
    );
    return h(
      "div",
      { class: "taking" },
      h("h3", {}, "Take it along"),
      line,
      save,
      h("p", { class: "hint" }, "aire prune CKPT -o OUT --plan plan.json applies the plan."),
    );
  }

  Object.assign(aire, { explorePanel: panel });
})((globalThis.aire ??= {}));
