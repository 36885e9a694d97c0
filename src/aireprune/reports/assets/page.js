"use strict";
// Builds the page from its document: the sections in their order, themes and printing.
(function (aire) {
  const { h } = aire;
  const RATIOS = d3.range(0, 20).map((i) => i / 20);
  const THEMES = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  const DARK = matchMedia("(prefers-color-scheme: dark)");
  const WORDS = [
    [
      "state",
      "What is removable: one mode of a layer with its input and readout. A stored mode that stands for a conjugate pair counts as one.",
    ],
    [
      "pole λ",
      "A state is multiplied by λ at every step. |λ| < 1 forgets; the half-life is the number of steps until half is left.",
    ],
    ["energy", "The sum of the squared impulse response of a state: how much it puts out over all time."],
    [
      "prefix score",
      "A state's energy divided by the energy of all states of its layer that are at least as strong. It compares states of different layers.",
    ],
    [
      "H2 error",
      "How much the output of a layer's state space part changes for white inputs, relative to its size. It is exact, not an estimate.",
    ],
    [
      "H∞, bounds",
      "The largest gain of the change over all inputs, and what is proved without searching for it. A bound is never below the truth.",
    ],
    [
      "Hankel singular values",
      "How much of a layer's memory of the past can be seen in its future, in its best coordinates. Balanced truncation keeps the largest.",
    ],
  ];

  // The theme that was asked for, and the one that is shown: auto is what the system has.
  function setTheme(name) {
    const root = document.documentElement;
    root.dataset.theme = name;
    root.dataset.shown = name === "auto" ? (DARK.matches ? "dark" : "light") : name;
    document.dispatchEvent(new Event("theme"));
  }

  function header(found) {
    const theme = h("button", { type: "button", class: "quiet", id: "theme" });
    const set = (name) => {
      setTheme(name);
      theme.textContent = THEMES[name];
      try {
        localStorage.setItem("aire-theme", name);
      } catch {} // a page opened from disk may have no storage
    };
    theme.addEventListener("click", () => {
      const order = Object.keys(THEMES);
      set(order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length]);
    });
    let saved = null;
    try {
      saved = localStorage.getItem("aire-theme");
    } catch {} // as above
    set(saved in THEMES ? saved : "auto");
    const top = h("div", { class: "top" }, h("span", { class: "brand" }, "AIRE-Prune"), theme);
    return h("header", {}, top, h("h1", {}, found.title), h("p", { class: "subtitle" }, found.subtitle));
  }

  function summary(found) {
    const cards = found.facts.map((fact) =>
      h(
        "div",
        { class: "fact" },
        h("dt", {}, fact.label),
        h("dd", {}, fact.before ? h("s", {}, aire.glued(fact.before)) : null, h("b", {}, aire.glued(fact.value))),
        fact.note ? h("dd", { class: "note" }, aire.glued(fact.note)) : null,
      ),
    );
    return h(
      "section",
      { id: "summary", "aria-label": "Summary" },
      h("p", { class: "verdict" }, aire.glued(found.verdict)),
      h("dl", { class: "facts" }, cards),
      found.notices.length
        ? h(
            "ul",
            { class: "notices" },
            found.notices.map((line) => h("li", {}, line)),
          )
        : null,
    );
  }

  function modelSections(found, view) {
    const { layers } = view.model;
    const cards = aire.cards(view, (number) => {
      view.choose(number);
      document.getElementById("layer").scrollIntoView({ block: "nearest" });
    });
    const detail = aire.layerDetail(view);
    const names = aire.shortNames(layers.map((layer) => layer.name));
    let shares = null;
    let of = null;
    const profile = aire.profileChart(() => {
      if (of !== view.ranking) {
        of = view.ranking;
        const rule = { ...view.rule, shortRows: false, roundTo: 1 };
        const counts = RATIOS.map((ratio) =>
          aire
            .choose(view.ranking, { ratio, minStates: view.settings.minStates }, rule)
            .kept.map((kept) => kept.length),
        );
        shares = layers.map((layer, i) => counts.map((at) => Math.min(1, at[i] / Math.max(layer.counted, 1))));
      }
      const total = d3.sum(layers, (layer) => layer.counted);
      const removed = view.planned ? 1 - d3.sum(view.kept, (kept) => kept.length) / Math.max(total, 1) : null;
      return { ratios: RATIOS, shares, names, mark: removed, chosen: layers.length > 1 ? view.chosen : -1 };
    }, "Share of states kept in each layer against the ratio of the whole model");
    view.watch(() => cards.redraw());
    view.watch(lazily(() => detail.redraw()));
    view.watch(lazily(() => profile.redraw()));
    document.addEventListener("theme", () => {
      cards.redrawAll();
      detail.redraw();
    });
    const at = view.planned
      ? view.responses && found.sweep
        ? " The plan is that of aire at its safe ratio."
        : ""
      : "";
    const sections = [
      aire.section(
        "layers",
        "Layers",
        `Poles of every layer, and how many states it keeps. Press a layer to see all of it below.${at}`,
        cards,
      ),
      aire.section("layer", "One layer", "", detail),
    ];
    if (layers.length > 1 && !found.sweep)
      sections.splice(
        1,
        0,
        aire.section(
          "shares",
          "What each layer keeps",
          `Share of states that stay in each layer as the ratio of the whole model grows. ${aire.profileLegend(layers.length)}${view.planned ? "; the dashed line is this plan" : ""}.`,
          aire.figure("", "", profile),
        ),
      );
    if (layers.some((layer) => layer.certificate))
      sections.push(
        aire.section(
          "certificates",
          "Certificates",
          "What is proved about the difference between each layer and what it became, beside the truth. Errors and energies are exact; a bound holds for every input.",
          aire.certificates(layers),
        ),
      );
    return sections;
  }

  // Calls of `then` that leave three quarters of the time to others, the last one always among them.
  function lazily(then) {
    let timer = null;
    let again = false;
    return function run() {
      if (timer) return (again = true);
      const began = performance.now();
      then();
      again = false;
      timer = setTimeout(
        () => {
          timer = null;
          if (again) run();
        },
        3 * (performance.now() - began),
      );
    };
  }

  function making({ commands, facts }) {
    const rows = facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
    return aire.section(
      "making",
      "How it was made",
      "The same commands on the same weights give the same again.",
      ...commands.map(aire.codeLine),
      h("dl", { class: "made" }, rows),
    );
  }

  function glossary() {
    return h(
      "details",
      { class: "glossary" },
      h("summary", {}, "What the words mean"),
      h(
        "dl",
        {},
        WORDS.flatMap(([word, meaning]) => [h("dt", {}, word), h("dd", {}, meaning)]),
      ),
    );
  }

  function start() {
    const found = aire.read();
    const root = document.getElementById("page");
    const head = header(found);
    const main = h("main", { id: "main" }, summary(found));
    let panel = null;
    if (found.sweep) main.append(...aire.sweepSections(found.sweep));
    if (found.model) {
      const view = (aire.view = aire.viewOf(found));
      if (found.explore) panel = aire.explorePanel(view);
      main.append(...modelSections(found, view));
      view.notify();
    }
    main.append(making(found.making), glossary());
    root.className = panel ? "exploring" : "";
    root.append(
      head,
      ...(panel ? [panel] : []),
      main,
      h("footer", {}, "Made by aireprune. This file is complete: it fetches nothing and sends nothing."),
    );
    printing();
  }

  // Paper is white: the light theme while printing, and everything that is folded open.
  function printing() {
    let before = "auto";
    window.addEventListener("beforeprint", () => {
      before = document.documentElement.dataset.theme;
      for (const one of document.querySelectorAll("details")) one.open = true;
      setTheme("light");
    });
    window.addEventListener("afterprint", () => setTheme(before));
    DARK.addEventListener("change", () => setTheme(document.documentElement.dataset.theme));
  }

  start();
})((globalThis.aire ??= {}));
