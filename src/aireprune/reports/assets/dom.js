"use strict";
// Elements, numbers as people read them, and the few things every part of the page needs. Text is always set as text.
(function (aire) {
  // An element with attributes (on… are listeners, null is left out) and children: elements or text.
  function h(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false)
        element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  function section(id, title, lead, ...children) {
    const heading = h("h2", { id: `${id}-title` }, title);
    return h(
      "section",
      { id, "aria-labelledby": `${id}-title` },
      heading,
      lead ? h("p", { class: "lead" }, lead) : null,
      ...children,
    );
  }

  function figure(caption, note, ...children) {
    const told = h("figcaption", {}, h("b", {}, caption), note ? h("span", {}, note) : null);
    return h("figure", { class: "chart" }, told, ...children);
  }

  const whole = new Intl.NumberFormat("en-US");

  // An exponent in small figures.
  function raised(power) {
    return [...String(power)].map((one) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(one)]).join("");
  }

  // Three digits that mean something: 0.0123, 4,560, 1.2e-7.
  function number(value, digits = 3) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-3 || size >= 1e6)) {
      const [front, power] = value.toExponential(digits - 1).split("e");
      return `${front.replace("-", "−")}·10${raised(Number(power))}`;
    }
    if (size >= 1000) return whole.format(Math.round(value));
    return String(Number(value.toPrecision(digits))).replace("-", "−");
  }

  // Text whose numbers stay on one line with their units.
  function glued(text) {
    return text.replace(/(\d) (?=%|[kMG]B\b)/g, "$1\u00a0");
  }

  function percent(share, digits = 1) {
    return share === null || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(digits)}\u00a0%`;
  }

  function steps(value) {
    return Number.isFinite(value) ? `${number(value)} step${value === 1 ? "" : "s"}` : "never";
  }

  function pole(logRadius, angle) {
    const radius = Math.exp(logRadius);
    const digits = Math.min(Math.max(4, Math.ceil(-Math.log10(Math.max(1 - radius, 1e-12))) + 2), 10);
    if (angle === 0) return radius.toFixed(digits);
    return `${radius.toFixed(digits)} ∠ ${angle.toFixed(3).replace("-", "−")} rad`;
  }

  // The part of each name that tells it from the others, in whole words: layers.0.seq and layers.1.seq are 0 and 1.
  function shortNames(names) {
    const words = names.map((name) => name.split(/(?<=[./_])|(?=[./_])/));
    const least = Math.min(...words.map((list) => list.length));
    let front = 0;
    let back = 0;
    const same = (at) => words.every((list) => list.at(at) === words[0].at(at));
    while (front < least - 1 && same(front)) front += 1;
    while (back < least - 1 - front && same(-1 - back)) back += 1;
    const found = words.map((list) =>
      list
        .slice(front, list.length - back)
        .join("")
        .replace(/^[./_]|[./_]$/g, ""),
    );
    return new Set(found).size === names.length && names.length > 1 ? found : names;
  }

  // A button that copies what `text` gives, and says so.
  function copyButton(text, label) {
    const button = h("button", { type: "button", class: "quiet", "aria-label": label }, "Copy");
    button.addEventListener("click", async () => {
      const value = text();
      try {
        await navigator.clipboard.writeText(value);
      } catch {
        const area = h("textarea", { class: "offscreen" }, value);
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    return button;
  }

  // A command in which lines break between words only, not behind the dash of an option.
  function setCommand(code, text) {
    code.replaceChildren(...text.split(" ").flatMap((word, i) => [i ? " " : "", h("span", {}, word)]));
  }

  function codeLine(text) {
    const code = h("code", {});
    setCommand(code, text);
    return h(
      "div",
      { class: "command" },
      h("pre", { tabindex: "0" }, code),
      copyButton(() => code.textContent, "Copy the command"),
    );
  }

  function download(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const link = h("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  // The value of a colour of page.css, for canvases. Looked up once per theme.
  let colours = new Map();
  document.addEventListener("theme", () => (colours = new Map()));
  function colour(name) {
    if (!colours.has(name))
      colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
    return colours.get(name);
  }

  // Call `then` when an element has a width, and whenever that changes.
  function onWidth(element, then) {
    let last = 0;
    new ResizeObserver(() => {
      const width = Math.floor(element.clientWidth);
      if (width > 0 && width !== last) then((last = width));
    }).observe(element);
  }

  Object.assign(aire, {
    h,
    section,
    figure,
    number,
    raised,
    glued,
    percent,
    steps,
    pole,
    whole,
    shortNames,
    copyButton,
    codeLine,
    setCommand,
    download,
    colour,
    onWidth,
  });
})((globalThis.aire ??= {}));
