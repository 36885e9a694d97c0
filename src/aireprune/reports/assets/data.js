"use strict";
// The document of the page: packed arrays become typed ones, and numbers that follow from them are worked out once.
(function (aire) {
  const KINDS = { f8: Float64Array, f4: Float32Array, u4: Uint32Array };

  // Everything in a value that is {kind: base64} as a typed array.
  function unpack(value) {
    if (Array.isArray(value)) return value.map(unpack);
    if (value === null || typeof value !== "object") return value;
    const [[kind, packed] = []] = Object.entries(value);
    if (kind in KINDS && typeof packed === "string" && Object.keys(value).length === 1) {
      const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
      return new KINDS[kind](bytes.buffer);
    }
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, unpack(item)]));
  }

  // Steps until a mode has lost half of its size.
  function halfLife(logRadius) {
    return logRadius < 0 ? Math.LN2 / -logRadius : Infinity;
  }

  // A layer as the page works with it.
  function prepare(layer, number) {
    const { log_radius: logRadius, angle } = layer.poles;
    const half = Float64Array.from(logRadius, halfLife);
    return {
      ...layer,
      number,
      half,
      logRadius,
      angle,
      real: angle.every((value) => value === 0),
      kept: layer.kept ?? Uint32Array.from({ length: layer.states }, (_, i) => i),
    };
  }

  // The raw scores of a layer by a criterion, or by balanced truncation.
  function raw(layer, criterion) {
    return criterion === "hankel" ? layer.hankel : (layer.scores[criterion] ?? layer.energy);
  }

  // What selection.js takes.
  function pool(model, criterion) {
    return model.layers.map((layer) => ({
      scores: raw(layer, criterion),
      groups: layer.groups,
      rows: layer.rows,
      counted: Math.ceil(layer.counted / layer.groups),
    }));
  }

  // The rule of a method under the settings that the model was opened with.
  function ruleOf(model, method, { epsilon = 0, roundTo = 1 } = {}) {
    const layout = model.plan?.layout ?? "adaptive";
    return {
      prefix: method.prefix,
      scope: method.scope,
      epsilon,
      roundTo,
      sameSize: layout === "uniform",
      shortRows: model.short_rows,
    };
  }

  // Score and rank (from 1) of every state of every layer, from what was compared in slots.
  function places(ranking) {
    return ranking.ranked.map(({ slots, values, order }) => {
      const count = slots.length * slots[0].length;
      const score = new Float64Array(count);
      const rank = new Uint32Array(count);
      slots.forEach((slot) => order.forEach((k, r) => ((score[slot[k]] = values[k]), (rank[slot[k]] = r + 1))));
      return { score, rank };
    });
  }

  function read() {
    const found = unpack(JSON.parse(document.getElementById("document").textContent));
    if (found.model) found.model.layers = found.model.layers.map(prepare);
    return found;
  }

  Object.assign(aire, { unpack, halfLife, raw, pool, ruleOf, places, read });
})((globalThis.aire ??= {}));
