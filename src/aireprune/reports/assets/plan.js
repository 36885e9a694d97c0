"use strict";
// A plan as Python writes it (Plan.to_json), byte for byte, and the command that makes it.
(function (aire) {
  const FLOATS = new Set(["ratio", "threshold", "epsilon", "energy_kept"]);
  const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", '"': '\\"', "\\": "\\\\" };

  // A float as Python's repr: shortest digits, a point or an exponent always, exponents of at least two digits.
  function float(value) {
    const [digits, exponent] = value.toExponential().split("e");
    const power = Number(exponent);
    if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
    if (power < -4 || power >= 16) {
      return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
    }
    const sign = value < 0 ? "-" : "";
    const plain = digits.replace("-", "").replace(".", "");
    if (power < 0) return `${sign}0.${"0".repeat(-power - 1)}${plain}`;
    const whole = plain.padEnd(power + 1, "0");
    return `${sign}${whole.slice(0, power + 1)}.${whole.slice(power + 1) || "0"}`;
  }

  // Text as json.dumps has it: everything but printable ASCII is escaped.
  function text(value) {
    const escaped = value.replace(/["\\]|[^ -~]/g, (one) => {
      return SHORT[one] ?? `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
    });
    return `"${escaped}"`;
  }

  // JSON with an indent of 1, as json.dumps(value, indent=1).
  function dump(value, key = "", depth = 0) {
    const inner = `\n${" ".repeat(depth + 1)}`;
    const outer = `\n${" ".repeat(depth)}`;
    if (value === null) return "null";
    if (typeof value === "string") return text(value);
    if (typeof value === "number") return FLOATS.has(key) ? float(value) : String(value);
    if (typeof value === "boolean") return String(value);
    const list = Array.isArray(value) || ArrayBuffer.isView(value);
    const items = list
      ? Array.from(value, (item) => dump(item, "", depth + 1))
      : Object.entries(value).map(([name, item]) => `${text(name)}: ${dump(item, name, depth + 1)}`);
    const [open, close] = list ? "[]" : "{}";
    return items.length ? `${open}${inner}${items.join(`,${inner}`)}${outer}${close}` : open + close;
  }

  // The plan that settings and a decision make of the plan that came with the page.
  function planOf(template, settings, decision, held) {
    return {
      ...template,
      method: settings.method,
      ratio: settings.threshold == null ? settings.ratio : null,
      threshold: decision.threshold === Infinity ? null : decision.threshold,
      by_threshold: settings.threshold != null,
      min_states: settings.minStates,
      epsilon: settings.epsilon,
      reduce: settings.reduce,
      round_to: settings.roundTo,
      layers: template.layers.map((layer, number) => {
        const kept = decision.kept[number];
        return { ...layer, kept, energy_kept: aire.energyShare(held[number], kept) };
      }),
    };
  }

  // A word as a POSIX shell takes it, quoted as Python's shlex.quote does.
  function quoted(word) {
    return word !== "" && !/[^\w@%+=:,./-]/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
  }

  // What to type for a plan. source: the checkpoint.
  function command(plan, source) {
    const words = ["aire", "prune", source, "-o", "OUT", "--method", plan.method, "--reduce", plan.reduce];
    words.push(...(plan.by_threshold ? ["--threshold", float(plan.threshold)] : ["--ratio", float(plan.ratio)]));
    words.push("--layout", plan.layout);
    if (plan.min_states !== 1) words.push("--min-states", String(plan.min_states));
    if (plan.epsilon !== 0) words.push("--epsilon", float(plan.epsilon));
    if (plan.horizon !== null) words.push("--horizon", String(plan.horizon));
    if (plan.seed !== 0) words.push("--seed", String(plan.seed));
    if (plan.granularity !== "mode") words.push("--granularity", plan.granularity);
    if (plan.round_to !== 1) words.push("--round-to", String(plan.round_to));
    for (const axis of plan.state_axes) words.push("--state-axis", axis);
    return words.map(quoted).join(" ");
  }

  Object.assign(aire, { planOf, command, planText: (plan) => `${dump(plan)}\n`, float });
})((globalThis.aire ??= {}));
