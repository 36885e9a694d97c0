"use strict";
// From scores to kept states, number for number as in Python: method/selection.py, method/decision.py and method/rows.py.
//
// A layer is {scores, groups, rows, counted}: raw scores (Float64Array, NaN for states that always stay), as many equal
// groups and rows as its states divide into, and how many of its states a ratio is a share of.
(function (aire) {
  const ROW_COST = 0.05;

  // Indices by descending value, ties by index.
  function order(values) {
    const indices = Uint32Array.from(values, (_, i) => i);
    return indices.sort((i, j) => (values[i] > values[j] ? -1 : values[i] < values[j] ? 1 : i - j));
  }

  // Sum in the order in which NumPy adds a contiguous array: pairwise, in blocks of at most 128.
  function sum(values, first = 0, count = values.length) {
    if (count < 8) {
      let total = 0;
      for (let i = 0; i < count; i++) total += values[first + i];
      return total;
    }
    if (count <= 128) {
      const r = values.slice(first, first + 8);
      const whole = count - (count % 8);
      for (let i = 8; i < whole; i += 8) for (let j = 0; j < 8; j++) r[j] += values[first + i + j];
      let total = r[0] + r[1] + (r[2] + r[3]) + (r[4] + r[5] + (r[6] + r[7]));
      for (let i = whole; i < count; i++) total += values[first + i];
      return total;
    }
    const half = (count >> 1) - ((count >> 1) % 8);
    return sum(values, first, half) + sum(values, first + half, count - half);
  }

  // s_(i) / (sum_{j<=i} s_(j) + epsilon) over the descending order, in the original order.
  function prefixNormalize(scores, epsilon) {
    const normalized = new Float64Array(scores.length);
    let total = 0;
    for (const i of order(scores)) {
      total += scores[i];
      normalized[i] = total + epsilon > 0 ? scores[i] / (total + epsilon) : 0;
    }
    return normalized;
  }

  // Which states are decided on together: slot k holds state slots[g][k] of every group g, its k-th best if there are several.
  function slotsOf(scores, groups) {
    const size = scores.length / groups;
    if (groups === 1) return [Uint32Array.from(scores, (_, i) => i)];
    return Array.from({ length: groups }, (_, g) => {
      const part = scores.slice(g * size, (g + 1) * size).map((s) => (Number.isNaN(s) ? Infinity : s));
      return order(part).map((i) => g * size + i);
    });
  }

  // What is compared over layers. rule: {prefix, epsilon}.
  function rank(layers, rule) {
    const ranked = layers.map((layer) => {
      const slots = slotsOf(layer.scores, layer.groups);
      const values = new Float64Array(slots[0].length);
      for (const slot of slots) slot.forEach((state, k) => (values[k] += layer.scores[state]));
      const always = Uint8Array.from(values, (value) => (Number.isNaN(value) ? 1 : 0));
      const free = values.filter((value) => !Number.isNaN(value));
      const compared = rule.prefix ? prefixNormalize(free, rule.epsilon) : free;
      let next = 0;
      for (let k = 0; k < values.length; k++) values[k] = always[k] ? Infinity : compared[next++];
      return { slots, values, always, must: always.reduce((a, b) => a + b, 0), order: order(values) };
    });
    return { layers, ranked, everything: everything(ranked) };
  }

  // All slots of all layers, best first; ties by layer, then by rank within it. [layer, rank] in two arrays.
  function everything(ranked) {
    const count = ranked.reduce((total, { values }) => total + values.length, 0);
    const layer = new Uint32Array(count);
    const place = new Uint32Array(count);
    const score = new Float64Array(count);
    let next = 0;
    ranked.forEach(({ values, order }, number) => {
      order.forEach((slot, rank) => {
        layer[next] = number;
        place[next] = rank;
        score[next++] = values[slot];
      });
    });
    return { layer, place, best: order(score) };
  }

  // 1 - ratio as a fraction of whole numbers: of 10 states at ratio 0.9 one stays, whatever binary fractions make of it.
  function share(ratio) {
    const [digits, exponent] = String(ratio).split("e");
    const [whole, fraction = ""] = digits.split(".");
    const places = fraction.length - Number(exponent || 0);
    const numerator = BigInt(whole + fraction) * 10n ** BigInt(Math.max(-places, 0));
    const denominator = 10n ** BigInt(Math.max(places, 0));
    return { numerator: denominator - numerator, denominator };
  }

  function keepOf({ numerator, denominator }, states) {
    return Number((numerator * BigInt(states)) / denominator);
  }

  // How many slots each layer keeps. budget: {ratio | threshold, minStates}; rule: {scope, sameSize}.
  function counts(ranking, budget, rule) {
    const sizes = ranking.ranked.map(({ values }) => values.length);
    const counted = ranking.layers.map((layer) => layer.counted);
    const least = (number) => Math.min(budget.minStates, sizes[number]);
    const atLeast = ({ values }, number) => {
      let reached = 0;
      for (const value of values) reached += value >= budget.threshold ? 1 : 0;
      return Math.max(reached, least(number));
    };
    const byThreshold = budget.threshold != null;
    if (rule.sameSize) {
      const count = byThreshold
        ? Math.max(...ranking.ranked.map(atLeast))
        : Math.max(keepOf(share(budget.ratio), Math.max(...counted)), least(0));
      return sizes.map(() => count);
    }
    if (byThreshold) return ranking.ranked.map(atLeast);
    const floors = ranking.ranked.map(({ must }, number) => Math.max(least(number), must));
    const exact = share(budget.ratio);
    if (rule.scope === "uniform") return uniformCounts(counted, exact, floors);
    const total = counted.reduce((a, b) => a + b, 0);
    return globalCounts(ranking.everything, keepOf(exact, total), floors);
  }

  // The same share of every layer, at least the floor; what rounding leaves over goes to the largest remainders.
  function uniformCounts(sizes, exact, floors) {
    const plus = (values) => values.reduce((a, b) => a + b, 0);
    const total = Math.max(keepOf(exact, plus(sizes)), plus(floors));
    const found = sizes.map((n, i) => Math.max(keepOf(exact, n), floors[i]));
    while (plus(found) !== total) {
      const excess = sizes.map((n, i) => BigInt(found[i]) * exact.denominator - exact.numerator * BigInt(n));
      const down = plus(found) > total;
      let chosen = -1;
      sizes.forEach((n, i) => {
        if (down ? found[i] <= floors[i] : found[i] >= n) return;
        if (chosen < 0 || (down ? excess[i] >= excess[chosen] : excess[i] < excess[chosen])) chosen = i;
      });
      found[chosen] += down ? -1 : 1;
    }
    return found;
  }

  // One ranking over all layers, after every layer's best ones up to its floor have been set aside.
  function globalCounts({ layer, place, best }, keep, floors) {
    const found = floors.slice();
    let spare = keep - floors.reduce((a, b) => a + b, 0);
    for (let i = 0; i < best.length && spare > 0; i++) {
      const one = best[i];
      if (place[one] < floors[layer[one]]) continue;
      found[layer[one]] += 1;
      spare -= 1;
    }
    return found;
  }

  // The kept states of every layer, ascending, and the score that they reached; Infinity if none was kept on its merit.
  function choose(ranking, budget, rule) {
    const wanted = counts(ranking, budget, rule);
    const chosen = ranking.ranked.map((layer, number) => {
      const size = layer.values.length;
      const count = Math.min(Math.ceil(wanted[number] / rule.roundTo) * rule.roundTo, size);
      return layer.order.slice(0, Math.max(count, layer.must));
    });
    let threshold = budget.threshold;
    if (threshold == null) {
      threshold = Infinity;
      ranking.ranked.forEach(({ values, always }, number) => {
        if (chosen[number].length <= Math.min(budget.minStates, values.length)) return;
        for (const slot of chosen[number]) if (!always[slot]) threshold = Math.min(threshold, values[slot]);
      });
    }
    let kept = chosen.map((slots, number) => {
      const groups = ranking.ranked[number].slots;
      const states = new Uint32Array(slots.length * groups.length);
      groups.forEach((group, g) => slots.forEach((slot, k) => (states[g * slots.length + k] = group[slot])));
      return states.sort();
    });
    if (rule.shortRows) {
      kept = kept.map((states, number) => {
        const layer = ranking.layers[number];
        if (layer.rows === 1) return states;
        layer.inRows ??= rowsOf(layer);
        return shortestRows(layer.inRows, states.length);
      });
    }
    return { kept, threshold };
  }

  // What shortestRows needs of a layer's scores, worked out once: best states first, the place of each in its row.
  function rowsOf({ scores, rows }) {
    const size = scores.length / rows;
    const ranked = scores.map((score) => (Number.isNaN(score) ? Infinity : score));
    const place = new Uint32Array(scores.length);
    let always = 0;
    for (let row = 0; row < rows; row++) {
      const part = ranked.subarray(row * size, (row + 1) * size);
      order(part).forEach((column, rank) => (place[row * size + column] = rank));
      always = Math.max(
        always,
        part.reduce((total, value) => total + (value === Infinity ? 1 : 0), 0),
      );
    }
    return {
      rows,
      size,
      place,
      always,
      best: order(ranked),
      worth: scores.map((score) => (Number.isNaN(score) ? 0 : score)),
    };
  }

  // The `keep` states that make rows short, at no more than ROW_COST on top of the least sum of removed scores.
  function shortestRows({ rows, size, place, always, best, worth }, keep) {
    const within = (width) => {
      const found = new Uint32Array(keep);
      let next = 0;
      for (let i = 0; i < best.length && next < keep; i++) if (place[best[i]] < width) found[next++] = best[i];
      return found.subarray(0, next);
    };
    const removed = (width) => {
      const chosen = within(width);
      const stays = new Uint8Array(worth.length);
      for (const state of chosen) stays[state] = 1;
      const gone = new Float64Array(worth.length - chosen.length);
      let next = 0;
      for (let state = 0; state < worth.length; state++) if (!stays[state]) gone[next++] = worth[state];
      return sum(gone);
    };
    const allowed = (1 + ROW_COST) * removed(size);
    let width = Math.max(Math.ceil(keep / rows), always);
    while (removed(width) > allowed) width += 1;
    return within(width).sort();
  }

  // The share of the summed energies that the kept states hold; energies that are not a number do not count.
  function energyShare(energies, kept) {
    const numbers = energies.map((value) => (Number.isNaN(value) ? 0 : value));
    const total = sum(numbers);
    if (total > 0) return sum(Float64Array.from(kept, (state) => numbers[state])) / total;
    return kept.length === energies.length ? 1 : 0;
  }

  Object.assign(aire, { order, sum, prefixNormalize, rank, choose, energyShare });
})((globalThis.aire ??= {}));
