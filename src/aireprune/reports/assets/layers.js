"use strict";
// All layers at a glance: a card for each, with its poles and what it keeps. A card that is pressed is shown in full.
(function (aire) {
  const { h } = aire;

  // view: {model, chosen, kept: [Uint32Array], ...}; choose(number) is called when a card is pressed.
  function cards(view, choose) {
    const { layers } = view.model;
    const full = layers.map((layer) => layer.name);
    const names = layers.length <= 6 ? full : aire.shortNames(full);
    const size = layers.length <= 6 ? "large" : layers.length <= 24 ? "middle" : "small";
    const found = layers.map((layer, number) => card(view, layer, names[number], () => choose(number)));
    const seen = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          target.seen = isIntersecting;
          if (isIntersecting && target.stale) target.redraw();
        }
      },
      { rootMargin: "200px" },
    );
    for (const one of found) seen.observe(one);
    const place = h("div", { class: `cards ${size}`, role: "group", "aria-label": "Layers" }, found);
    place.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const at = found.indexOf(document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      found[(at + step + found.length) % found.length].focus();
    });
    place.redraw = () => found.forEach((one) => (one.seen ? one.redraw() : (one.stale = true)));
    place.redrawAll = () => found.forEach((one) => one.redraw());
    return place;
  }

  function card(view, layer, name, choose) {
    const canvas = aire.discCanvas({ "aria-hidden": "true" }, () => button.redraw());
    const bar = h("i");
    const count = h("span", { class: "count" });
    const button = h(
      "button",
      { type: "button", class: "card", title: layer.name, onclick: choose },
      canvas,
      h("b", {}, name),
      count,
      h("span", { class: "bar", "aria-hidden": "true" }, bar),
    );
    button.redraw = () => {
      const kept = view.kept[layer.number];
      button.stale = false;
      button.setAttribute("aria-pressed", String(view.chosen === layer.number));
      const all = aire.whole.format(layer.counted);
      count.textContent = view.planned ? `${aire.whole.format(kept.length)} of ${all}` : `${all} states`;
      bar.style.width = `${(100 * kept.length) / Math.max(layer.states, 1)}%`;
      aire.drawDisc(canvas, layer, view.scale, {
        kept: aire.marked(layer.states, view.renewed ? [] : kept),
        chosen: -1,
        renewed: view.renewed,
        labelled: false,
      });
    };
    return button;
  }

  // Bounds, true norms and exact errors of every layer that has them.
  function certificates(layers) {
    const proved = layers.filter((layer) => layer.certificate);
    const heads = [
      "layer",
      "modes",
      "kept",
      "H2 error",
      "worst case H∞",
      "AIRE bound",
      "LAST bound",
      "balanced bound",
      "energy of the layer",
      "of the difference",
    ];
    const rows = proved.map(({ name, certificate: c }) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name),
        ...[
          aire.whole.format(c.modes),
          aire.whole.format(c.kept),
          aire.percent(c.relative_h2),
          aire.number(c.hinf, 4),
          aire.number(c.aire_bound, 4),
          aire.number(c.last_bound, 4),
          aire.number(c.balanced_bound, 4),
          aire.number(c.layer_energy, 4),
          aire.number(c.error_energy, 4),
        ].map((cell) => h("td", {}, cell)),
      ),
    );
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

  Object.assign(aire, { cards, certificates });
})((globalThis.aire ??= {}));
