"use strict";
// Poles on a canvas. Trained poles crowd at the unit circle, so the radius is that of half-lives on a logarithmic scale:
// equal distances are equal factors of memory, the unit circle (a pole that never forgets) is the rim. Layers whose poles are all real
// have no angles; they are drawn as energy against half-life.
(function (aire) {
  const RIM = 0.985;
  const MANY = 600; // states from where on dots have one size

  // What the radius of a half-life is, the longest one of the model being just inside of the rim.
  function radiusScale(layers) {
    let longest = 10;
    for (const layer of layers)
      for (const half of layer.half) if (Number.isFinite(half)) longest = Math.max(longest, half);
    const span = Math.log10(1 + longest) * 1.04;
    const decades = [];
    for (let value = 10; value <= longest; value *= 10) decades.push(value);
    return { span, decades, of: (half) => (Number.isFinite(half) ? Math.min(Math.log10(1 + half) / span, 1) : 1.03) };
  }

  // Where every state of a layer is; worked out once.
  function spots(layer, scale) {
    return (layer.spots ??= spotsOf(layer, scale));
  }

  // In [-1, 1] to both sides, up being positive; and how large each dot is, 0 to 1. poles: others than the layer's own.
  function spotsOf(layer, scale, poles = null) {
    const half = poles ? Float64Array.from(poles.log_radius, aire.halfLife) : layer.half;
    const angle = poles ? poles.angle : layer.angle;
    const x = new Float32Array(half.length);
    const y = new Float32Array(half.length);
    const size = new Float32Array(half.length);
    const positive = layer.energy.filter((value) => value > 0);
    const top = positive.reduce((a, b) => Math.max(a, b), 0);
    const low = positive.reduce((a, b) => Math.min(a, b), Infinity);
    for (let i = 0; i < half.length; i++) {
      const energy = poles ? NaN : layer.energy[i];
      size[i] = energy > 0 ? Math.sqrt(energy / top) : 0.25;
      if (layer.real && !poles) {
        const height = energy > 0 && top > low ? Math.log(energy / low) / Math.log(top / low) : 0;
        x[i] = -0.93 + 1.86 * scale.of(half[i]);
        y[i] = -0.86 + 1.72 * height;
      } else {
        const r = RIM * scale.of(half[i]);
        x[i] = r * Math.cos(angle[i]);
        y[i] = r * Math.sin(angle[i]);
      }
    }
    return { x, y, size };
  }

  function circle(context, x, y, r) {
    context.moveTo(x + r, y);
    context.arc(x, y, r, 0, 2 * Math.PI);
  }

  // The states that are kept (1) or not (0), as one path: circles, or small squares where there are many.
  function trace(context, place, marks, kept, { middle, unit, radius, many }) {
    context.beginPath();
    for (let i = 0; i < place.x.length; i++) {
      if (marks[i] !== kept) continue;
      const x = middle + unit * place.x[i];
      const y = middle - unit * place.y[i];
      const r = radius(place.size[i]);
      if (many) context.rect(x - r, y - r, 2 * r, 2 * r);
      else circle(context, x, y, r);
    }
  }

  // Draw a layer. marks: {kept: Uint8Array, chosen: state or -1, renewed: its states are new ones, labelled: rings have names}.
  function draw(canvas, layer, scale, marks) {
    const width = canvas.side; // as it was last told: asking for it here would lay out the page again
    if (!width) return;
    const dots = Math.max(2, window.devicePixelRatio || 1);
    if (canvas.width !== Math.round(width * dots)) canvas.width = canvas.height = Math.round(width * dots);
    const context = canvas.getContext("2d");
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.clearRect(0, 0, width, width);
    const middle = width / 2;
    const unit = middle - 2;
    frame(context, layer, scale, { middle, unit });
    const place = spots(layer, scale);
    const many = layer.states > MANY;
    const large = width > 200;
    const radius = (size) => (many ? (large ? 1.4 : 0.9) : Math.max(large ? 2 : 1.2, (width / 46) * size));
    const how = { middle, unit, radius, many };
    trace(context, place, marks.kept, 0, how);
    context.strokeStyle = context.fillStyle = aire.colour("removed");
    context.lineWidth = 1.1;
    context.globalAlpha = many ? 0.45 : 0.9;
    if (many) context.fill();
    else context.stroke();
    trace(context, place, marks.kept, 1, how);
    context.fillStyle = aire.colour("aire");
    context.globalAlpha = many ? 0.8 : 0.85;
    context.fill();
    context.globalAlpha = 1;
    if (layer.after && marks.renewed) {
      const fresh = spotsOf(layer, scale, layer.after);
      context.beginPath();
      for (let i = 0; i < fresh.x.length; i++) {
        circle(context, middle + unit * fresh.x[i], middle - unit * fresh.y[i], many ? 1.6 : Math.max(1.6, width / 90));
      }
      context.fillStyle = aire.colour("aire");
      context.fill();
    }
    if (marks.labelled) {
      context.font = "11px Inter, system-ui, sans-serif";
      labels(context, layer, scale, { middle, unit });
    }
    if (marks.chosen >= 0) {
      context.beginPath();
      circle(
        context,
        middle + unit * place.x[marks.chosen],
        middle - unit * place.y[marks.chosen],
        radius(place.size[marks.chosen]) + 4,
      );
      context.strokeStyle = aire.colour("ink");
      context.lineWidth = 1.5;
      context.stroke();
    }
  }

  // The unit circle and rings of half-lives; of real poles a frame with decades.
  function frame(context, layer, scale, { middle, unit }) {
    context.lineWidth = 1;
    context.strokeStyle = aire.colour("rule");
    if (layer.real) {
      context.strokeRect(middle - 0.98 * unit, middle - 0.98 * unit, 1.96 * unit, 1.96 * unit);
      for (const value of scale.decades) {
        const x = middle + unit * (-0.93 + 1.86 * scale.of(value));
        context.beginPath();
        context.moveTo(x, middle - 0.98 * unit);
        context.lineTo(x, middle + 0.98 * unit);
        context.stroke();
      }
      return;
    }
    context.beginPath();
    for (const value of scale.decades) circle(context, middle, middle, unit * RIM * scale.of(value));
    context.moveTo(middle - unit * RIM, middle);
    context.lineTo(middle + unit * RIM, middle);
    context.stroke();
    context.beginPath();
    circle(context, middle, middle, unit * RIM);
    context.strokeStyle = aire.colour("faint");
    context.lineWidth = 1.5;
    context.stroke();
  }

  // Half-lives of the rings, over the dots and legible on them.
  function labels(context, layer, scale, { middle, unit }) {
    context.fillStyle = aire.colour("quiet");
    context.strokeStyle = aire.colour("paper");
    context.lineWidth = 4;
    context.lineJoin = "round";
    for (const value of scale.decades) {
      const along = scale.of(value);
      const [x, y] = layer.real
        ? [middle + unit * (1.86 * along - 0.93) + 4, middle + 0.94 * unit]
        : [middle + 4, middle - unit * RIM * along - 4];
      context.strokeText(aire.steps(value), x, y);
      context.fillText(aire.steps(value), x, y);
    }
  }

  // The state whose dot is nearest to a point of the canvas, or -1.
  function nearest(canvas, layer, scale, x, y) {
    const place = spots(layer, scale);
    const middle = canvas.side / 2;
    const unit = middle - 2;
    let best = -1;
    let distance = 14 ** 2;
    for (let i = 0; i < layer.states; i++) {
      const d = (middle + unit * place.x[i] - x) ** 2 + (middle - unit * place.y[i] - y) ** 2;
      if (d < distance) [best, distance] = [i, d];
    }
    return best;
  }

  // A canvas whose side is known; redraw() is called when that changes.
  function discCanvas(attributes, redraw) {
    const canvas = aire.h("canvas", attributes);
    aire.onWidth(canvas, (width) => {
      canvas.side = width;
      redraw();
    });
    return canvas;
  }

  function marked(states, kept) {
    const found = new Uint8Array(states);
    for (const state of kept) found[state] = 1;
    return found;
  }

  Object.assign(aire, { radiusScale, discCanvas, drawDisc: draw, nearestPole: nearest, marked });
})((globalThis.aire ??= {}));
